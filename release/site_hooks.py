"""Hooks of mkdocs: fill the generated pages, and handle links to files that are not in docs/.

A link to a file of the project, such as ``../examples/campaign.toml``, leads to its page or to a copy of the file.
A link to a directory becomes plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

sys.path.insert(0, os.fspath(Path(__file__).parent))

import site_pages

NOTEBOOKS = site_pages.ROOT / "examples" / "notebooks"
#: The pages of files that are not in docs/.
PAGES_OF = {source: page for page, source in site_pages.COPIES.items()}
#: Encrypt the connections to kernels, else each notebook prints a warning.
KernelManager.transport_encryption.default_value = "auto"
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)")


@event_priority(100)  # before mkdocs-jupyter, which looks for notebooks
def on_files(files: Any, config: Any) -> Any:
    """Add the pages that have no file in docs/, linked files, and notebooks."""
    missing = site_pages.undocumented()
    if missing:
        raise PluginError(f"public names without a docstring or a comment '#:': {', '.join(missing)}")
    for path, text in site_pages.virtual_pages().items():
        files.append(File.generated(config, path, content=text))
    for source in sorted(_linked_files(files)):
        content = (site_pages.ROOT / source).read_bytes()
        files.append(File.generated(config, _copy_of(source), content=content))
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        path = f"notebooks/{notebook.name}"
        files.append(File(path, os.fspath(NOTEBOOKS.parent), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the markers of a page, change its links to files outside docs/, and link to the table of all settings."""
    path = page.file.src_uri

    def copied(found: re.Match[str]) -> str:
        target = _project_path(path, found[2])
        if target is None:
            return found[0]
        if target in PAGES_OF:
            return f"[{found[1]}]({posixpath.relpath(PAGES_OF[target], posixpath.dirname(path) or '.')})"
        if (site_pages.ROOT / target).is_dir():
            return found[1] if found[1].startswith("`") else f"`{found[1]}`"
        return f"[{found[1]}]({posixpath.relpath(_copy_of(target), posixpath.dirname(path) or '.')})"

    text = _OUTSIDE.sub(copied, site_pages.with_plain_pipes(site_pages.fill(markdown)))
    return site_pages.with_link_to_settings(text, path)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Keep options on one line, and show each progress bar once, and public names instead of those of twins in C."""
    if page.file.src_uri.startswith("reference/python/"):
        for one in site_pages.public_names():
            if one.name != one.definition:
                html = html.replace(f">{one.definition}<", f">{one.name}<")
    html = re.sub(r"<code>(--[\w-]+)</code>", r'<code class="option">\1</code>', html)
    return site_pages.with_one_update(html)


def _linked_files(files: Any) -> set[str]:
    """Return the files outside docs/ that pages link to."""
    found = set()
    for file in files.documentation_pages():
        for _, link in _OUTSIDE.findall(file.content_string):
            target = _project_path(file.src_uri, link)
            if target is not None and target not in PAGES_OF and (site_pages.ROOT / target).is_file():
                found.add(target)
    return found


def _project_path(page: str, link: str) -> str | None:
    """Return the path in the project that a link of a page means; None if it is in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def _copy_of(path: str) -> str:
    """Return where the site has the copy of a file. A server may refuse hidden files and add types by suffixes."""
    return f"files/{path.replace('/.', '/').removeprefix('.')}.txt"
