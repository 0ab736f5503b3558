"""Generate the pages of the documentation site that follow from the code.

A page of docs/ has a marker ``<!-- generated: NAME -->`` where the site shows the result of a function of `MARKERS`.
Pages that have no file in docs/ are in `virtual_pages`. This module needs neither mkdocs nor the packages of the site,
so that tests can check it.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticUndefined

import pybatsched
from pybatsched import errors
from pybatsched.cli import build_parser
from pybatsched.core.fields import DeadlineFields, StartFields, field_descriptions
from pybatsched.live.batsim_options import USAGE
from pybatsched.policies import registry

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
#: Pages of the site that are files outside docs/.
COPIES: Final = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_MARKER: Final = re.compile(r"<!-- generated: ([a-z-]+) -->")
_WIDTH: Final = 96
#: An output of a notebook that a progress bar writes over the one before it.
_UPDATE: Final = (
    r'<div class="jp-OutputArea-child">\s*<div [^>]*></div>\s*<div [^>]*>\s*<pre>\r[^<]*</pre>\s*</div>\s*</div>\s*'
)
_BAR: Final = re.compile(f"({_UPDATE})+")


class Section(NamedTuple):
    """A page of Python names: its title, what it is about, and the modules that define its names."""

    title: str
    about: str
    modules: tuple[str, ...]


#: The pages of Python names, by the names of their files in reference/python.
SECTIONS: Final = {
    "experiments": Section(
        "Experiments",
        "Simulate, compare and run campaigns in a program or a notebook.",
        (
            "experiment.simulating",
            "experiment.runs",
            "experiment.policies",
            "runs.policies",
            "experiment.log",
            "experiment.stepping",
        ),
    ),
    "policy": Section(
        "Policy",
        "The class that a policy extends, and its options.",
        ("core.policy", "core.options", "core.model_refs"),
    ),
    "decisions": Section("Decisions", "What a policy returns from `decide`.", ("core.decisions",)),
    "jobs": Section(
        "Jobs",
        "Jobs, their states, and models of their fields. The [API guide](../../api.md#state) lists a job's attributes.",
        ("core.jobs", "core.fields", "core.derive"),
    ),
    "machine": Section(
        "Machine and time",
        "Processors, partitions, nodes, and times on Batsim's tick.",
        (
            "core.cluster",
            "core.intervals",
            "core.host_nodes",
            "core.node_requests",
            "core.nodes",
            "core.instants",
            "machines",
        ),
    ),
    "events": Section("Events", "What Batsim reports.", ("core",)),
    "queues": Section(
        "Queues",
        "Local schedulers: a queue and a rule on one partition.",
        ("policies.local_scheduler", "policies.queue_options", "policies.orders", "policies.registry"),
    ),
    "plans": Section(
        "Plans",
        "Free processors and nodes over time, and reservations.",
        ("policies.availability", "policies.node_profile", "policies.reservations", "policies.freed_intervals"),
    ),
    "learning": Section(
        "Learning",
        "Queues from which an agent chooses.",
        ("policies.choices", "policies.observations", "policies.loading"),
    ),
    "predictions": Section(
        "Predictions",
        "Predictors of run times. The [guide](../../predictions.md) explains them.",
        ("core.predictions",),
    ),
    "errors": Section("Errors", "Errors that are reported to the user without a traceback.", ("errors",)),
}


class PublicName(NamedTuple):
    """A public name: where it is defined, and under which name there. A twin in C has a definition in Python."""

    name: str
    module: str
    definition: str
    docstring: str

    @property
    def identifier(self) -> str:
        """The full name of the definition, as mkdocstrings finds it."""
        return f"pybatsched.{self.module}.{self.definition}"

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        first = " ".join(self.docstring.partition("\n\n")[0].split())
        return re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0]


def fill(markdown: str) -> str:
    """Replace the markers of a page by what they stand for. Raises KeyError for an unknown marker."""
    return _MARKER.sub(lambda found: MARKERS[found[1]](), markdown)


def with_plain_pipes(markdown: str) -> str:
    r"""Return a page whose tables have no ``\|`` in code. GitHub needs the backslash; the site would show it.

    >>> with_plain_pipes(r"| `a \| b` | c \| d |")
    '| `a | b` | c \\| d |'
    """
    code = re.compile(r"`[^`\n]*`")
    return re.sub(
        r"^\|.*$", lambda row: code.sub(lambda span: span[0].replace("\\|", "|"), row[0]), markdown, flags=re.MULTILINE
    )


def with_link_to_settings(text: str, page: str) -> str:
    r"""Return the text of a page with a link to the table of all settings at its end.

    >>> with_link_to_settings("# Commands", "reference/cli.md")
    '# Commands\n\n---\n\n[All settings of runs](../settings.md)\n'
    """
    if page == "settings.md":
        return text
    link = posixpath.relpath("settings.md", posixpath.dirname(page) or ".")
    return f"{text}\n\n---\n\n[All settings of runs]({link})\n"


def with_one_update(html: str) -> str:
    r"""Show only the last update of each progress bar of a notebook, as a browser with Jupyter does.

    >>> update = '<div class="jp-OutputArea-child"><div class="p"></div><div class="t"><pre>\r{}</pre></div></div>'
    >>> with_one_update("<p>" + "".join(map(update.format, (" 3%|", "50%|\r80%|", "    ", ""))) + "</p>")
    '<p><div class="jp-OutputArea-child"><div class="p"></div><div class="t"><pre>80%|</pre></div></div></p>'
    """

    def last(found: re.Match[str]) -> str:
        shown = [text for text in re.findall(r"\r([^\r<]*)", found[0]) if text.strip()]
        return re.sub(r"\r[^<]*", lambda _: shown[-1], found[1]) if shown else ""

    return _BAR.sub(last, html)


def virtual_pages() -> dict[str, str]:
    """Return the pages that have no file in docs/, by their paths on the site."""
    copies = {path: _from_root((ROOT / source).read_text(encoding="utf-8")) for path, source in COPIES.items()}
    return {**copies, **{f"reference/python/{key}.md": _section_page(key) for key in SECTIONS}}


def _from_root(markdown: str) -> str:
    """Change the links of a page at the top of the project to links from docs/."""

    def moved_link(found: re.Match[str]) -> str:
        target = found[1]
        page, _, anchor = target.partition("#")
        copy = next((path for path, source in COPIES.items() if source == page), None)
        if copy is not None:
            return f"]({copy}{'#' * bool(anchor)}{anchor})"
        return f"]({target.removeprefix('docs/')})" if target.startswith("docs/") else f"](../{target})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", moved_link, markdown)


# Python names


@cache
def public_names() -> tuple[PublicName, ...]:
    """Return all public names of `pybatsched`, in the order of `pybatsched.__all__`. Reads their modules' source."""
    modules = {name: module for module, names in pybatsched._MODULES.items() for name in names.split()}  # noqa: SLF001
    return tuple(_public_name(name, modules[name]) for name in pybatsched.__all__ if name in modules)


def _public_name(name: str, module: str) -> PublicName:
    folder = ROOT / "pybatsched" / Path(*module.split("."))
    for source in (folder / f"{name}.py", folder / name / "__init__.py"):  # a module or a package
        if source.is_file():
            return PublicName(name, module, name, _docstring(ast.parse(source.read_text("utf-8"))))
    text = folder.with_suffix(".py").read_text(encoding="utf-8")
    lines = text.splitlines()
    nodes = {found: node for node in _statements(ast.parse(text)) for found in _defines(node)}
    definition = name
    node = nodes[name]
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):  # the twin of a definition in C
        definition = node.value.id
        node = nodes[definition]
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return PublicName(name, module, definition, _docstring(node))
    return PublicName(name, module, definition, comment_above(lines, node.lineno))


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those for type checkers last: they win over the same names at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If):
            yield from [one for part in node.orelse for one in _statements(ast.Module([part], []))]
            yield from [one for part in node.body for one in _statements(ast.Module([part], []))]
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.Try):
            yield node


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return ast.get_docstring(node) or ""


def comment_above(lines: list[str], lineno: int) -> str:
    r"""Return the ``#:`` comment above a line (from 1), which documents an attribute.

    >>> comment_above(["#: One tick,", "#: in seconds.", "TICK = 1e-6"], 3)
    'One tick,\nin seconds.'
    """
    found: list[str] = []
    for line in reversed(lines[: lineno - 1]):
        text = line.strip()
        if not text.startswith("#:"):
            break
        found.insert(0, text[2:].strip())
    return "\n".join(found)


def fenced_examples(text: str) -> str:
    r"""Return a docstring with its ``>>>`` examples in code blocks. In Markdown they would be quotations.

    >>> fenced_examples("Add.\n\n>>> 1 + 1\n2\n\nEnd.").splitlines()
    ['Add.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'End.']
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(f"```pycon\n{one}\n```" if one.lstrip().startswith(">>>") else one for one in paragraphs)


def undocumented() -> list[str]:
    """Return the public names without a docstring or a comment ``#:``."""
    return [one.name for one in public_names() if not one.docstring.strip()]


def _names_of(section: Section) -> list[PublicName]:
    return [one for module in section.modules for one in public_names() if one.module == module]


def _section_page(key: str) -> str:
    section = SECTIONS[key]
    lines = [f"# {section.title}", "", section.about, ""]
    for one in _names_of(section):
        lines += [f"::: {one.identifier}", "    options:", f"      heading: {one.name}"]
        lines += [f"      toc_label: {one.name}", "      heading_level: 2"]
        lines.append("")
    return "\n".join(lines)


def _python_index() -> str:
    parts = []
    for key, section in SECTIONS.items():
        rows = [f"| [`{one.name}`][{one.identifier}] | {cell(one.summary)} |" for one in _names_of(section)]
        head = [f"## [{section.title}](python/{key}.md)", "", section.about, "", "| name | meaning |", "|---|---|"]
        parts.append("\n".join([*head, *rows, ""]))
    return "\n".join(parts)


# The command line


def commands(parser: argparse.ArgumentParser | None = None) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands and sub-commands, in the order of the help."""
    for action in (parser or build_parser())._actions:  # noqa: SLF001  there is no public way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for sub in action.choices.values():
                yield sub
                yield from commands(sub)


def shown_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options of a command that its help shows, without sub-commands and ``--help``."""
    hidden = (argparse._SubParsersAction, argparse._HelpAction)  # noqa: SLF001
    shown = (one for one in parser._actions if one.help != argparse.SUPPRESS)  # noqa: SLF001
    return [one for one in shown if not isinstance(one, hidden)]


def _cli() -> str:
    parts = []
    for parser in commands():
        name = parser.prog.removeprefix("pybatsched ")
        head = f"{'##' if ' ' not in name else '###'} {name}\n"
        if parser.prog == "pybatsched batsim":
            usage, _, rest = USAGE.partition("\n\n")
            parts.append(f"{head}\n{_code(usage)}\n{_code(rest)}")
            continue
        formatter = argparse.HelpFormatter(parser.prog, width=_WIDTH)
        parts.append("\n".join([head, parser.description or "", "", _code(_usage(parser))]))
        for group in parser._action_groups:  # noqa: SLF001
            actions = [one for one in shown_actions(parser) if one in group._group_actions]  # noqa: SLF001
            rows = [f"| {_call(one, formatter)} | {cell(_help(one, formatter))} |" for one in actions]
            if rows:
                title = {"positional arguments": "argument", "options": "option"}.get(group.title or "", "option")
                named = f"**{group.title}**\n\n" if group.title not in {"positional arguments", "options"} else ""
                parts.append(f"{named}| {title} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
        if parser.epilog:
            parts.append(_code(parser.epilog.strip("\n")))
    return "\n".join(parts)


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=_WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")  # noqa: SLF001
    return formatter.format_help().strip()


def _call(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """Write how an option is given, each of its names on its own line."""
    text = formatter._format_action_invocation(action)  # noqa: SLF001
    names = re.split(r", (?=-)", text) if action.option_strings else [text]
    return "<br>".join(f"`{one}`" for one in names).replace("|", "\\|")


def _help(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
    return f"{text} (required)" if action.required and action.option_strings else text


def _code(text: str) -> str:
    return f"```text\n{text}\n```\n"


def cell(text: str) -> str:
    """Write text for a cell of a table: on one line, and without characters that Markdown would interpret."""
    spans = re.split(r"(`[^`]*`)", " ".join(text.replace("``", "`").split()))
    plain = (one if one.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", one) for one in spans)
    return "".join(plain).replace("|", "\\|")


# Exit codes, policies and fields


def _exit_codes() -> str:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    return page.partition("\n## Exit codes\n")[2].partition("\n## ")[0].strip() + "\n"


def _error_classes() -> str:
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.PybatschedError)]
    found.sort(key=lambda one: (one.exit_code, len(one.__mro__), one.__name__))
    rows = [
        f"| `{one.__name__}` | {one.exit_code} | {cell((inspect.getdoc(one) or '').partition(chr(10) * 2)[0])} |"
        for one in found
    ]
    return "\n".join(["| class of `pybatsched.errors` | exit code | meaning |", "|---|---|---|", *rows, ""])


@cache
def included_policies() -> tuple[registry.PolicySource, ...]:
    """Return the policies that come with pybatsched, by name."""
    found = (registry.find(name) for name in registry.available())
    return tuple(one for one in found if one.cls.__module__.startswith("pybatsched_schedulers."))


def _job_fields() -> str:
    fields: dict[str, dict[str, list[str]]] = {}
    for source in included_policies():
        for name, text in source.job_fields.items():
            fields.setdefault(name, {}).setdefault(text, []).append(source.name)
    for name, text in field_descriptions(DeadlineFields).items():
        fields.setdefault(name, {}).setdefault(text, []).append("metrics")
    everywhere = len(included_policies())
    for name, text in field_descriptions(StartFields).items():
        fields[name] = {text: ["every policy"] * everywhere}
    rows = []
    for name, texts in sorted(fields.items()):
        for text, readers in texts.items():
            shown = "every policy" if len(readers) >= everywhere else ", ".join(f"`{one}`" for one in readers)
            rows.append(f"| `{name}` | {cell(text)} | {shown.replace('`metrics`', 'metrics')} |")
    return "\n".join(["| field | valid values | read by |", "|---|---|---|", *rows, ""])


def _policy_options() -> str:
    parts = []
    for source in included_policies():
        about = (inspect.getdoc(source.cls) or "").partition("\n\n")[0]
        lines = [f"## {source.name}", "", " ".join(about.split()), ""]
        if source.batsim_args:
            lines += [f"Batsim must be started with `{' '.join(source.batsim_args)}`.", ""]
        rows = [
            f"| `{name}` | `{_default(info)}` | {cell(info.description or '')} |".replace("``", "")
            for name, info in source.option_fields.items()
        ]
        lines += ["| option | default | meaning |", "|---|---|---|", *rows, ""] if rows else ["No options.", ""]
        parts.append("\n".join(lines))
    return "\n".join(parts)


def _default(info: Any) -> str:
    default = PydanticUndefined if info.is_required() else info.get_default(call_default_factory=True)
    text = "(required)" if default is PydanticUndefined else json.dumps(default, default=str)
    return text.replace("|", "\\|")


#: What each marker stands for.
MARKERS: Final[dict[str, Callable[[], str]]] = {
    "cli": _cli,
    "python-index": _python_index,
    "exit-codes": _exit_codes,
    "error-classes": _error_classes,
    "job-fields": _job_fields,
    "policy-options": _policy_options,
}
