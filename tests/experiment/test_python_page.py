"""The pages on experiments: all public names are on that of Python, and their examples run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from support.places import ROOT

import pybatsched

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NAMES = [
    name
    for module, names in pybatsched._MODULES.items()
    if module.startswith(("experiment.", "runs."))
    for name in names.split()
]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGE), f"docs/python.md does not mention {name}"


@pytest.mark.parametrize("kind", ["Log", "Run", "Runs"])
def test_every_member_is_on_the_page(kind: str) -> None:
    cls: Any = getattr(pybatsched, kind)
    variable = {"Log": r"(log|part|small|first|exact|busier)", "Run": "run", "Runs": "runs"}[kind]
    members = [name for name in vars(cls) if not name.startswith("_")]
    hidden = {"workload", "how_read", "file_digest", "is_from_log", "digest", "record", "tau_s", "as_jobs"}
    hidden |= {"policy", "seed", "name"}
    missing = [name for name in members if name not in hidden and not re.search(rf"\b{variable}[^\n]*\.{name}\b", PAGE)]
    assert missing == []


def run_examples(page: str) -> dict[str, Any]:
    """Run the examples of a page in order, and return their names."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(example, f"docs/{page}.md", "exec"), scope)
    return scope


def test_the_examples_of_the_page_on_experiments_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_examples("experiments")["runs"]


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    scope = run_examples("python")
    assert (tmp_path / "waits.pdf").stat().st_size > 1000
    assert "<html" in (tmp_path / "page.html").read_text()[:500]
    assert len(scope["runs"]) == 6
