"""The documentation site: its pages, links, pictures and generated parts. Only the last test needs mkdocs."""

from __future__ import annotations

import argparse
import dataclasses
import doctest
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT, module_of
from support.process import run_cli

import pybatsched
from pybatsched.cli import build_parser

DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "paper")
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.fixture(scope="module")
def site_pages() -> Any:
    return module_of("site_pages", ROOT / "release" / "site_pages.py")


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, which also names Python functions."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def nav_pages() -> list[str]:
    def below(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in below(part)]

    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_Loader)
    parts = [name for part in config["nav"] for name in part]
    assert parts == ["Start", "First steps", "Experiments", "Policies", "Contribute", "Reference"]
    return below(config["nav"])


def test_each_page_is_in_the_navigation_once(site_pages: Any) -> None:
    written = {page.relative_to(DOCS).as_posix() for page in PAGES}
    notebooks = {f"notebooks/{path.name}" for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")}
    assert sorted(nav_pages()) == sorted(written | site_pages.virtual_pages().keys() | notebooks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?![a-z]+:)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pictures_are_what_the_code_draws(tmp_path: Path) -> None:
    pictures = module_of("pictures", ROOT / "release" / "pictures.py")
    pictures.main(tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (DOCS / "images").iterdir()}, "run make pictures"


def test_each_public_name_has_a_docstring_and_a_page(site_pages: Any) -> None:
    assert site_pages.undocumented() == []
    names = [one.name for one in site_pages.public_names()]
    assert names == [name for name in pybatsched.__all__ if name != "__version__"]
    pages = "".join(text for path, text in site_pages.virtual_pages().items() if "/python/" in path)
    assert sorted(re.findall(r"^      heading: (\w+)$", pages, flags=re.MULTILINE)) == sorted(names)
    index = site_pages.fill((DOCS / "reference" / "python.md").read_text())
    assert [name for name in names if f"[`{name}`]" not in index] == []


@pytest.mark.parametrize("name", ["Job", "Cluster", "Partition", "JobView"])
def test_attributes_have_comments(name: str, site_pages: Any) -> None:
    """The site shows the attributes with a comment. All attributes of the guide's tables, or of a record, need one."""
    cls = getattr(pybatsched, name)
    lines = inspect.getsource(cls).splitlines()
    described = {
        found[1]
        for number, line in enumerate(lines, start=1)
        if (found := re.match(r"\s+(?:self\.)?(\w+)(?:: .*| = .*)$", line)) and site_pages.comment_above(lines, number)
    }
    if dataclasses.is_dataclass(cls):
        wanted = {field.name for field in dataclasses.fields(cls)}
    else:
        guide = (DOCS / "api.md").read_text()
        table = guide.partition(f"| `{name}` | |\n|---|---|\n")[2].partition("\n\n")[0]
        cells = " ".join(row.split(" | ")[0] for row in table.splitlines())
        members = set(re.findall(r"`(\w+)`", cells))
        wanted = {one for one in members if not isinstance(getattr(cls, one, None), property)}
    assert wanted
    assert wanted - described == set()


def test_a_public_name_is_documented_where_it_is_defined(site_pages: Any) -> None:
    for one in site_pages.public_names():
        value = getattr(pybatsched, one.name)
        if inspect.isclass(value) and one.name == one.definition:
            assert f"{value.__module__}.{value.__name__}" == one.identifier


def test_examples_of_the_generator(site_pages: Any) -> None:
    assert doctest.testmod(site_pages).failed == 0


def actions_of(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.Action]]:
    found: list[tuple[str, argparse.Action]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                found += actions_of(sub)
        elif action.help != argparse.SUPPRESS:
            found.append((parser.prog, action))
    return found


def test_the_page_of_options_has_each_command_and_each_visible_option(site_pages: Any) -> None:
    page = site_pages.fill((DOCS / "reference" / "cli.md").read_text())
    sections = dict(re.findall(r"^###? (.+)\n((?:(?!##).*\n)*)", page, flags=re.MULTILINE))
    shown = actions_of(build_parser())
    assert len(shown) > 150
    for prog, action in shown:
        command = prog.removeprefix("pybatsched").strip()
        if command and not isinstance(action, argparse._HelpAction):
            for name in action.option_strings:
                assert re.search(rf"`{name}[ `]", sections[command]), f"{prog} {name}"
    assert "--link DIR" in sections["batsim"]
    assert "former name" not in page


def test_markers_are_known_and_all_used(site_pages: Any) -> None:
    used = [name for page in PAGES for name in re.findall(r"<!-- generated: ([a-z-]+) -->", page.read_text())]
    assert sorted(used) == sorted(site_pages.MARKERS)


def test_generated_tables_have_what_the_code_has(site_pages: Any) -> None:
    fields = site_pages.MARKERS["job-fields"]()
    options = site_pages.MARKERS["policy-options"]()
    for source in site_pages.included_policies():
        assert all(f"| `{name}` |" in fields for name in source.job_fields)
        assert f"\n## {source.name}\n" in f"\n{options}"
        assert all(f"| `{name}` |" in options for name in source.option_fields)
    assert "| `InputError` | 2 |" in site_pages.MARKERS["error-classes"]()
    assert "| 7 |" in site_pages.MARKERS["exit-codes"]()


def test_each_term_of_the_glossary_is_used_elsewhere() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", (DOCS / "glossary.md").read_text(), flags=re.MULTILINE)
    assert {"campaign", "cell", "family", "setting", "wait", "queue time", "flow", "response"} <= set(terms)
    assert len(terms) == len(set(terms))
    others = "\n".join(page.read_text() for page in PAGES if page.name != "glossary.md")
    assert [term for term in terms if not re.search(rf"\b{term}", others, flags=re.IGNORECASE)] == []


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run_as_they_are(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands and Python are executed in order. The output that a page shows is the beginning of the real one."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    printed, shared, n_executed = "", dict[str, object](), 0
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        command = re.match(r"(?:\$ )?pybatsched (.*)\n", block)
        if language == "toml":
            Path("study.toml").write_text(block)
        elif language == "python":
            exec(compile(block, page.name, "exec"), shared)
            printed = capsys.readouterr().out
        elif command is not None:
            done = run_cli(*shlex.split(command[1]))
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(block[command.end() :]), command[1]
        elif not language:
            assert printed.rstrip() == block.rstrip()
        n_executed += language == "python" or command is not None
    assert n_executed >= 3


class _Resources(HTMLParser):
    """Collects what a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video"} and given.get("src"):
            self.found.append(str(given["src"]))
        if tag == "link" and given.get("href"):
            self.found.append(str(given["href"]))


SITE_PYTHON = ROOT / "build" / "docs-env" / "bin" / "python"


def python_with_mkdocs() -> str | None:
    """The Python of this environment or of `make docs`, whichever has the packages of the site."""
    if all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings")):
        return sys.executable
    return str(SITE_PYTHON) if (SITE_PYTHON.parent.parent / "ready").exists() else None


@pytest.mark.skipif(python_with_mkdocs() is None, reason="mkdocs is not installed: `make docs` installs it")
def test_the_site_builds_strictly_and_needs_no_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(python_with_mkdocs()), "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        resources = _Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert [one for one in resources.found if re.match(r"(https?:)?//", one)] == [], page.name
        assert b"\r" not in page.read_bytes(), f"{page.name}: updates of a progress bar"
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name
