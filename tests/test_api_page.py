"""The page of the plugin API: all names are on it, and its examples run."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from support.places import ROOT

import pybatsched
from pybatsched.core import decisions

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

DECISIONS = {
    name for name, value in vars(decisions).items() if isinstance(value, type) and issubclass(value, decisions.Decision)
}
HOOKS = [name for name, value in vars(pybatsched.Policy).items() if inspect.isfunction(value) and name[0] != "_"]


def is_shown(name: str) -> bool:
    return re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE.replace("```", "")) is not None


@pytest.mark.parametrize("name", [name for name in pybatsched.__all__ if not name.startswith("__")])
def test_every_name_is_on_the_page(name: str) -> None:
    assert is_shown(name), f"docs/api.md says nothing of {name}"


@pytest.mark.parametrize(
    "cls", [pybatsched.Policy, pybatsched.LocalScheduler, pybatsched.Partition, pybatsched.Cluster]
)
def test_so_is_every_member_that_is_for_authors(cls: type) -> None:
    engines = {
        "from_begins",
        "occupy",
        "vacate",
        "change_machines",
        "check",
        "sleep_pstates",
        "partition_of",
        "partition_at",
    }
    names = [name for name, _ in inspect.getmembers(cls) if not name.startswith("_") and name != "Options"]
    assert [name for name in names if name not in engines and not is_shown(name)] == []


def test_every_decision_can_be_imported() -> None:
    assert DECISIONS - set(pybatsched.__all__) == {"UnknownDecision"}  # which a policy must not make
    for name in DECISIONS & set(pybatsched.__all__):
        assert getattr(pybatsched, name) is getattr(decisions, name)  # events of the same name are in `events`


@pytest.mark.parametrize("name", sorted([*HOOKS, *DECISIONS - {"Decision", "UnknownDecision"}]))
def test_every_hook_and_decision_has_an_example(name: str) -> None:
    pattern = rf"def {name}\(" if name in HOOKS else rf"\b{name}\("
    assert any(re.search(pattern, example) for example in EXAMPLES), f"no example of docs/api.md has {name}"


def test_the_examples_run_as_they_are() -> None:
    shared: dict[str, Any] = {"__name__": "api_page"}
    for number, example in enumerate(EXAMPLES, 1):
        exec(compile(example, f"example {number} of docs/api.md", "exec"), shared)
    assert len(EXAMPLES) == 16
