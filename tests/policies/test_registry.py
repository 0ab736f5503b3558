"""Finding policies, loading them from files, and the sources of their options."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pybatsched.core import events as e
from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.policies.registry import PolicyPlan

GOOD = """
from pydantic import Field
from pybatsched import Policy, Options

class Knobs(Options):
    size: int = Field(3, ge=1, description="how many")
    name: str = "x"

class Good(Policy):
    '''Does nothing.'''
    Options = Knobs
    def decide(self, now):
        return ()
"""


Writer = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def write(text: str, name: str = "mine.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_shipped_policies_come_by_entry_point() -> None:
    assert set(registry.available()) >= {"fcfs", "easy", "conservative"}
    for name in ("fcfs", "easy", "conservative"):
        source = registry.find(name)
        assert source.cls.__module__ == f"pybatsched_schedulers.{name}"


def test_by_path_with_and_without_class(write: Writer) -> None:
    path = write(GOOD)
    for name in (f"{path}:Good", path):
        source = registry.find(name, trusted=True)
        assert (source.cls.__name__, source.name, source.table_name) == ("Good", name, "Good")


def test_a_file_may_import_its_neighbours(write: Writer) -> None:
    write("FACTOR = 3\n", "neighbour_of_mine.py")
    path = write("from neighbour_of_mine import FACTOR\n" + GOOD)
    assert registry.find(f"{path}:Good", trusted=True).cls.__name__ == "Good"


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        (GOOD, ":Nope", "does not define Nope; it defines Good"),
        ("x = 1", "", ":CLASS with one class"),
        ("import no_such_module_anywhere", ":X", "ModuleNotFoundError"),
        ("def broken(:\n", ":X", "SyntaxError"),
        ("1 / 0\n", ":X", r"ZeroDivisionError.*mine.py: line 1"),
        ("raise SystemExit(3)", ":X", "SystemExit"),
        ("raise GeneratorExit", ":X", "GeneratorExit"),
        ("class X: pass", ":X", "class X; expected a subclass of pybatsched.Policy"),
        ("X = 3", ":X", "is a int; expected a subclass"),
        ("from pybatsched import Policy\nclass X(Policy): pass", ":X", "does not define decide"),
        (GOOD + "\n    Options = dict\n", ":Good", "Options: expected a pydantic model"),
    ],
)
def test_broken_files_give_one_clear_message(write: Writer, text: str, suffix: str, message: str) -> None:
    path = write(text)
    with pytest.raises(InputError, match=message) as caught:
        registry.find(path + suffix, trusted=True)
    assert "mine.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"unknown policy 'esay'; did you mean 'easy'\? Installed: conservative, dbf, easy, fcfs, locality, publ",
    ):
        registry.find("esay")
    with pytest.raises(InputError, match=r"file .* not found"):
        registry.find(f"{tmp_path}/gone.py:X", trusted=True)


def test_unknown_names_without_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies of pybatsched are found without entry points, so they are named too."""
    mine = metadata.EntryPoint("easier", "mine:Easier", registry.GROUP)
    monkeypatch.setattr(registry, "available", lambda: {"easier": mine})
    assert registry.find("easy").name == "easy"
    with pytest.raises(InputError, match=r"'easy'\? Installed: conservative, dbf, easier, easy, fcfs, locality"):
        registry.find("esay")


def test_a_broken_installed_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("bad", "no_such_package:Thing", registry.GROUP)
    monkeypatch.setattr(registry, "available", lambda: {"bad": entry})
    with pytest.raises(InputError, match=r"policy 'bad' \(no_such_package:Thing\) cannot be loaded"):
        registry.find("bad")


def begins(sched_config: str) -> e.SimulationBegins:
    return e.SimulationBegins(config={"sched-config": sched_config}, timestamp=0.0)


def test_precedence_of_option_sources(write: Writer) -> None:
    source = registry.find(write(GOOD), trusted=True)
    plan = PolicyPlan(source, {"size": 30}, {"size": 10, "name": "file"}, "my.toml")
    assert plan.options_for(None).model_dump() == {"size": 30, "name": "file"}
    assert plan.options_for(begins('{"size": 20, "name": "batsim"}')).model_dump() == {"size": 30, "name": "batsim"}
    assert PolicyPlan(source).options_for(begins("")).model_dump() == {"size": 3, "name": "x"}


@pytest.mark.parametrize(
    ("given", "from_file", "expected", "message"),
    [
        ({"sise": 1}, {}, "", r"unknown option 'sise' \(from -o\); did you mean 'size'\? Expected one of: size, name"),
        ({}, {"sise": 1}, "", r"unknown option 'sise' \(from my.toml\)"),
        ({}, {}, '{"sise": 1}', r"unknown option 'sise' \(from Batsim's --sched-cfg\)"),
        ({"size": 0}, {}, "", r"option size \(from -o\): expected 1 or more, found 0"),
        ({"size": "many"}, {}, "", r"option size \(from -o\): expected a whole number, found 'many'"),
        (
            {"host_reservations": [{"name": "a", "start": 0, "hosts": 1}]},
            {},
            "",
            r"option host_reservations 1: duration \(from -o\): is missing; expected a number",
        ),
        ({}, {}, "size=3", "--sched-cfg is not a JSON object"),
        ({}, {}, "[1]", "--sched-cfg: expected a JSON object"),
        ({}, {}, '{"policy": "easy"}', "requests policy 'easy', but policy is"),
    ],
)
def test_bad_options_name_their_source(
    write: Writer, given: dict[Any, Any], from_file: dict[Any, Any], expected: str, message: str
) -> None:
    plan = PolicyPlan(registry.find(write(GOOD), trusted=True), given, from_file, "my.toml")
    with pytest.raises(InputError, match=message):
        plan.options_for(begins(expected))


def test_a_missing_option_may_come_from_batsim(write: Writer) -> None:
    required = GOOD.replace("size: int = Field(3, ge=1", "size: int = Field(ge=1")
    plan = PolicyPlan(registry.find(write(required), trusted=True))
    plan.check_early()
    options: Any = plan.options_for(begins('{"size": 5}'))
    assert options.size == 5
    with pytest.raises(InputError, match="option size"):
        plan.options_for(begins(""))
    with pytest.raises(InputError, match="option size"):
        PolicyPlan(plan.source, {"size": 0}).check_early()
    with pytest.raises(InputError, match="unknown option 'sise'"):
        PolicyPlan(plan.source, {"sise": 1}).check_early()
    with pytest.raises(InputError, match="host_reservations 1: duration"):
        PolicyPlan(plan.source, {"host_reservations": [{"name": "a", "start": 0, "hosts": 1}]}).check_early()


def test_sched_config_may_name_the_policy(write: Writer) -> None:
    options: Any = PolicyPlan(registry.find("easy")).options_for(begins('{"policy": "easy", "order": "sjf"}'))
    assert options.order == "sjf"
    plan = PolicyPlan(registry.find(write(GOOD), trusted=True))
    options = plan.options_for(begins('{"policy": "Good", "size": 4}'))
    assert options.size == 4


def test_a_constructor_that_raises_is_the_plugins_fault(write: Writer) -> None:
    broken = GOOD + "\n    def __init__(self, options):\n        raise KeyError('x')\n"
    plan = PolicyPlan(registry.find(write(broken), trusted=True))
    with pytest.raises(InputError, match="cannot be created: KeyError"):
        plan.make(begins(""))
