"""The page of the plugin API: its tables are those of the code, and its examples run."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from typing import Any

import pytest
from support.api_tables import names_of, tables, with_tables
from support.patience import PATIENCE_S
from support.places import ROOT

import pybatsched
from pybatsched.core import decisions

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
OF_PAGE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
EXAMPLES = [*OF_PAGE, (ROOT / "examples" / "policy_api.py").read_text(encoding="utf-8")]

DECISIONS = {
    name for name, value in vars(decisions).items() if isinstance(value, type) and issubclass(value, decisions.Decision)
}
HOOKS = [name for name, value in vars(pybatsched.Policy).items() if inspect.isfunction(value) and name[0] != "_"]


PROSE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)


def spans(text: str) -> list[str]:
    """Return what is written as code in a text, but for its examples. A span is on one line."""
    return [span for line in text.splitlines() for span in re.findall(r"`([^`]+)`", line)]


def tables_of(name: str) -> str:
    """Return the rows of the tables that are about a class by their heads."""
    tables = re.findall(r"(?:^\|.*\n)+", PROSE, flags=re.MULTILINE)
    return "".join(table for table in tables if name in spans(table.splitlines()[0]))


def is_shown(name: str, text: str = PROSE) -> bool:
    return any(re.search(rf"\b{name}\b", span) for span in spans(text))


#: Members that are the engine's own, or those of shipped policies.
OTHERS = {
    "Policy": "",
    "Partition": "add_running change_estimate remove_running",
    "Cluster": (
        "from_begins occupy vacate change_machines show_returning check sleep_pstates partition_of partition_at "
        "is_retired retire_profile hand_over use_nodes inherit"
    ),
    "Job": ("from_fields load n_derived n_held prediction queued_in rest restarts segment whole"),
}


@pytest.mark.parametrize("cls", OTHERS)
def test_every_public_member_is_on_the_page(cls: str) -> None:
    """In a table of their class; hooks and settings of policies have several."""
    text = PROSE if cls == "Policy" else tables_of(cls)
    of_class = inspect.getmembers(getattr(pybatsched, cls))
    names = {name for name, _ in of_class if not name.startswith("_") and name != "Options"}
    names -= {name for name, value in of_class if (value.__doc__ or "").startswith("Deprecated")}
    others = set(OTHERS[cls].split())
    assert others <= names
    assert sorted(name for name in names - others if not is_shown(name, text)) == []
    assert not any(is_shown(name, tables_of(cls)) for name in others if cls != "Cluster")


def test_the_tables_of_hooks_and_decisions_are_those_of_the_code() -> None:
    assert names_of(PAGE) == list(tables())
    assert with_tables(PAGE, tables()) == PAGE, "docs/api.md is not what the code says: run make api"


SET_BY_THE_ENGINE = {"can_restart", "can_suspend", "can_load", "can_reshape"}  # functions of one job


@pytest.mark.parametrize("cls", [name for name in OTHERS if name != "Policy"])
def test_the_other_tables_name_parameters_as_the_code_does(cls: str) -> None:
    shown = [re.fullmatch(r"(\w+)\((.*)\)", span) for span in spans(tables_of(cls))]
    for name, given in [found.groups() for found in shown if found is not None and found[1] not in SET_BY_THE_ENGINE]:
        function = getattr(pybatsched, cls) if name == cls else getattr(getattr(pybatsched, cls), name)
        names = [one.partition("=")[0] for one in given.split(", ") if one]
        assert names == [one for one in inspect.signature(function).parameters if one != "self"], f"{cls}.{name}"


def test_names_count_only_in_code_spans_outside_of_examples() -> None:
    text = "`a` and then `b`\n\n`c`\n"
    assert [is_shown(name, text) for name in ("a", "and", "then", "b", "c")] == [True, False, False, True, True]
    assert "def decide" in PAGE
    assert "def decide" not in PROSE


def test_every_decision_can_be_imported() -> None:
    assert DECISIONS - set(pybatsched.__all__) == {"UnknownDecision"}  # which a policy must not make
    for name in DECISIONS & set(pybatsched.__all__):
        assert getattr(pybatsched, name) is getattr(decisions, name)  # events of the same name are in `events`


@pytest.mark.parametrize("name", sorted([*HOOKS, *DECISIONS - {"Decision", "UnknownDecision"}]))
def test_every_hook_and_decision_has_an_example(name: str) -> None:
    pattern = rf"def {name}\(" if name in HOOKS else rf"\b{name}\("
    assert any(re.search(pattern, example) for example in EXAMPLES), (
        f"no example of docs/api.md or policy_api.py has {name}"
    )


@pytest.mark.parametrize("flag", ["manages_registration", "reads_sched_config"])
def test_flags_that_no_included_policy_sets_have_an_example(flag: str) -> None:
    assert any(f"    {flag} = True\n" in example for example in EXAMPLES)


def test_a_public_module_can_be_the_first_import() -> None:
    """`events` is a module: its package has it as an attribute only after an import."""
    script = "from pybatsched import events; print(events.Event.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr) == ("Event\n", "")


def test_the_examples_of_the_page_run_as_they_are() -> None:
    shared: dict[str, Any] = {"__name__": "api_page"}
    for number, example in enumerate(OF_PAGE, 1):
        exec(compile(example, f"example {number} of docs/api.md", "exec"), shared)
    assert len(OF_PAGE) == 5


def test_the_file_of_examples_runs() -> None:
    runpy.run_path(str(ROOT / "examples" / "policy_api.py"))


def test_the_page_names_an_example_of_each_decision() -> None:
    """In the code of the page, or in its table of policies in the file of examples."""
    table = PAGE.partition("use the other decisions:")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \| `(\w+)` \|", table, flags=re.MULTILINE)
    assert {policy for _, policy in rows} <= set(re.findall(r"^class (\w+)", EXAMPLES[-1], flags=re.MULTILINE))
    in_table = {name for names, _ in rows for name in re.findall(r"\w+", names)}
    of_page = {name for name in DECISIONS if any(re.search(rf"\b{name}\(", example) for example in OF_PAGE)}
    assert DECISIONS - of_page - in_table == {"Decision", "UnknownDecision"}
    assert in_table <= DECISIONS
