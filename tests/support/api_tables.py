"""Write the tables of docs/ that follow from the code, as `make api` does.

    PYTHONPATH=tests python -m support.api_tables

A row of docs/api.md (hooks, decisions and services) is a signature (names, types and defaults of the parameters) and
the first line of a docstring, read from the source. Those of docs/settings.md and docs/campaigns.md are in
`support.setting_tables`, those of docs/metrics.md and docs/experiments.md in `support.metric_tables`, that of
docs/slurm.md in `support.slurm_tables`. `support.public_names` writes tests/public_names.txt, and
`support.citation_files` the files for citations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from support import citation_files, metric_tables, public_names, setting_tables, slurm_tables
from support.places import ROOT

SERVICES = ("Requeue", "StartAt", "Release", "Replace", "Reshape")
NOT_FOR_POLICIES = ("Decision", "UnknownDecision")
_TABLE = re.compile(r"(<!-- make api: (\w+) -->\n\n).*?(\n<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Return the rows of each table, with its head, by the name in its marker."""
    decisions = {
        cls.name: _row(f"{cls.name}({_fields(cls)})", cls)
        for cls in _classes("decisions")
        if any(isinstance(base, ast.Name) and base.id == "Decision" for base in cls.bases)
    }
    (policy,) = (cls for cls in _classes("policy") if cls.name == "Policy")
    methods = [node for node in policy.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    hooks = [_row(_signature(method), method) for method in methods if method.name.startswith("on_")]
    asked = [_row(_signature(method), method) for method in methods if not method.name.startswith("on_")]
    others = [row for name, row in decisions.items() if name not in (*SERVICES, *NOT_FOR_POLICIES)]
    return {
        "hooks": _table("hook", "when", hooks),
        "asked": _table("method", "what it returns", asked),
        "decisions": _table("decision", "what it does", others),
        "services": _table("decision", "what it does", [decisions[name] for name in SERVICES]),
    }


def with_tables(page: str, made: Mapping[str, str]) -> str:
    """Return the page with tables between its markers."""
    return _TABLE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", page)


def names_of(page: str) -> list[str]:
    """Return the names of the tables that a page has markers for."""
    return [found[2] for found in _TABLE.finditer(page)]


def _classes(module: str) -> list[ast.ClassDef]:
    text = (ROOT / "pybatsched" / "core" / f"{module}.py").read_text(encoding="utf-8")
    return [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def _fields(cls: ast.ClassDef) -> str:
    shown = ", ".join(ast.unparse(node) for node in cls.body if isinstance(node, ast.AnnAssign))
    return re.sub(r"\b(JobId|PState)\b", "str", shown)


def _signature(method: ast.FunctionDef) -> str:
    method.args.args = method.args.args[1:]  # without self
    returned = "" if method.name.startswith("on_") else f" -> {ast.unparse(method.returns)}" if method.returns else ""
    return f"{method.name}({ast.unparse(method.args)}){returned}"


def _row(signature: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    message = (ast.get_docstring(node) or "").splitlines()[0].replace("``", "`")
    cells = (text.replace("|", r"\|") for text in (f"`{signature}`", message))
    return f"| {' | '.join(cells)} |"


def _table(name: str, message: str, rows: list[str]) -> str:
    return "\n".join((f"| {name} | {message} |", "|---|---|", *rows, ""))


if __name__ == "__main__":
    citation_files.write()
    for name, made in {
        "api.md": tables(),
        "settings.md": setting_tables.tables(),
        "campaigns.md": setting_tables.of_campaigns(),
        "metrics.md": metric_tables.of_metrics(),
        "experiments.md": metric_tables.of_experiments(),
        "slurm.md": slurm_tables.tables(),
    }.items():
        page = ROOT / "docs" / name
        page.write_text(with_tables(page.read_text(encoding="utf-8"), made), encoding="utf-8")
    public_names.write()
