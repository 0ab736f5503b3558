"""The page on experiments in Python: all public names are on it, and its examples run."""

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


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    scope: dict[str, Any] = {"__name__": "__main__"}
    for example in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(example, "docs/python.md", "exec"), scope)
    assert (tmp_path / "waits.pdf").stat().st_size > 1000
    assert "<html" in (tmp_path / "page.html").read_text()[:500]
    assert len(scope["runs"]) == 6
