"""Fields of jobs that policies read: faults of invalid fields."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import Field, ValidationInfo, model_validator

from pybatsched import FieldError, FieldModel, JobFields, Policy
from pybatsched.core.field_check import FieldCheck
from pybatsched.core.fields import NOTHING, DeadlineFields, Fault, field_descriptions, memory_class, memory_need_gb
from pybatsched.errors import InputError, PolicyError
from pybatsched.testing import Workload, run_policy


class Account(FieldModel):
    name: str = Field(min_length=1, description="a name")
    share: float = Field(1.0, gt=0, le=1)


class Fields(JobFields):
    project: str | int = Field("none", description="a text or a whole number")
    account: Account | None = None
    node_hours: float = Field(0.0, alias="node-hours", ge=0, description="hours from 0")
    notice: int = Field(0)

    @model_validator(mode="after")
    def _first_words_count(self, info: ValidationInfo) -> Fields:
        if self.notice:
            assert isinstance(info.context, dict)
            if info.context.setdefault("notice", self.notice) != self.notice:
                raise FieldError("notice", "what a job before it says", self.notice)
        if self.project == "none" and self.account is not None:
            raise ValueError("account without project")
        return self


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({}, []),
        ({"user": {}, "subtime": "x"}, []),
        ({"project": "p", "account": {"name": "a"}, "node-hours": 3, "estimate": 5, "notice": 1}, []),
        ({"estimate": 0}, [Fault("estimate", "expected more than 0 seconds", 0)]),
        ({"estimate": "5"}, [Fault("estimate", "expected more than 0 seconds", "5")]),
        ({"estimate": True}, [Fault("estimate", "expected more than 0 seconds", True)]),
        ({"estimate": math.inf}, [Fault("estimate", "expected more than 0 seconds", math.inf)]),
        ({"estimate": 10**400}, [Fault("estimate", "expected more than 0 seconds", 10**400)]),
        ({"estimate": 1 << 70, "project": "p"}, []),
        ({"estimate": None}, [Fault("estimate", "expected more than 0 seconds", None)]),
        ({"notice": None}, [Fault("notice", "expected a value", None)]),
        ({"project": "p", "account": {}}, [Fault("account.name", "expected a name", NOTHING)]),
        ({"project": "p", "account": {"name": "", "share": 2}},
         [Fault("account.name", "expected a name", ""), Fault("account.share", "expected at most 1", 2)]),
        ({"node-hours": -1}, [Fault("node-hours", "expected hours from 0", -1)]),
        ({"node_hours": -1}, []),
        ({"account": {"name": "a"}}, [Fault("", "account without project")]),
        ({"notice": 1.5}, [Fault("notice", "expected a whole number", 1.5)]),
    ],
)  # fmt: skip
def test_faults_of_invalid_fields(fields: dict[str, Any], faults: list[Fault]) -> None:
    assert list(FieldCheck(Fields).faults(fields)) == faults


def test_an_error_of_a_union_type_is_reported_once_for_the_field() -> None:
    assert {fault[:2] for fault in FieldCheck(Fields).faults({"project": 1.5})} == {
        ("project", "expected a text or a whole number")
    }


def test_jobs_of_a_run_are_checked_beside_each_other() -> None:
    check = FieldCheck(Fields)
    assert [list(check.faults({"notice": n})) for n in (7, 7, 8)] == [
        [],
        [],
        [Fault("notice", "expected what a job before it says", 8)],
    ]
    assert not list(FieldCheck(Fields).faults({"notice": 8}))


def test_a_field_without_a_default_must_be_there() -> None:
    class Strict(JobFields):
        project: str = Field(description="a text")

    assert FieldCheck(Strict).error_text("w0!1", {}) == "job w0!1, field project: expected a text, found nothing"
    assert FieldCheck(Strict).error_text("w0!1", {"project": ""}) is None
    assert field_descriptions(Strict) == {"estimate": "more than 0 seconds", "project": "a text"}


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.none())))
def test_the_estimate_is_the_same_by_hand_and_by_the_model(value: Any) -> None:
    by_hand = list(FieldCheck(JobFields).faults({"estimate": value}))
    by_model = list(FieldCheck(Fields).faults({"estimate": value, "notice": 0}))
    assert [fault.what for fault in by_hand] == [fault.what for fault in by_model]


def test_a_deadline_is_given_in_one_field_and_is_not_null() -> None:
    check = FieldCheck(DeadlineFields)
    assert [fault.what for fault in check.faults({"deadline": 1, "max_stay": 1})] == [
        "both deadline and max_stay; expected one of them"
    ]
    assert [fault.what for fault in check.faults({"deadline": None})] == ["field deadline: expected seconds from 0"]


class Reading(Policy):
    """A policy that reads a field."""

    JobFields = Fields

    def decide(self, now: float) -> tuple[()]:
        return ()


def test_jobs_over_the_wire_are_checked_when_they_come() -> None:
    with pytest.raises(InputError, match="^job w0!b, field node-hours: expected hours from 0, found -1$"):
        run_policy(Reading, Workload().job("a", n=1, s=1).job("b", n=1, s=1, at=5, **{"node-hours": -1}), n_procs=1)


def test_an_exception_of_a_validator_is_the_plugins() -> None:
    class Clumsy(JobFields):
        project: str = ""

        @model_validator(mode="after")
        def _fails(self) -> Clumsy:
            raise KeyError(self.project)

    with pytest.raises(PolicyError, match="Clumsy raised KeyError"):
        list(FieldCheck(Clumsy, "mine").faults({"project": "p"}))


def test_fields_that_are_not_a_model_are_an_error(tmp_path: Path) -> None:
    text = (
        "from pybatsched import Policy\n\nclass Mine(Policy):\n    JobFields = dict\n    def decide(self, now): ...\n"
    )
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match="Mine.JobFields: expected a subclass of pybatsched.JobFields"):
        run_policy(f"{tmp_path}/mine.py:Mine", Workload().job("a", n=1, s=1), n_procs=1)


@given(need=st.floats(0, 2000), classes=st.lists(st.integers(1, 1024), unique=True).map(sorted))
def test_the_least_memory_that_holds_it(need: float, classes: list[int]) -> None:
    assert memory_class(need, classes) == min((memory for memory in classes if memory >= need), default=None)


@pytest.mark.parametrize(
    ("fields", "need"),
    [
        ({}, 0),
        ({"input_size_gb": 0}, 0),
        ({"input_file": "a", "input_size_gb": 6.4}, 6.4),
        ({"node_memory_gb": 0.5, "input_size_gb": 6.4}, 0.5),
        ({"node_memory_gb": None, "input_size_gb": None}, 0),
    ],
)
def test_what_a_job_needs(fields: dict[str, Any], need: float) -> None:
    assert memory_need_gb(fields) == need


@pytest.mark.parametrize("field", ["node_memory_gb", "input_size_gb"])
@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, "12", [1]])
def test_invalid_memory_needs_are_rejected(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^field {field}: expected"):
        memory_need_gb({field: value})


def test_a_memory_need_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="^field node_memory_gb: expected more than 0 GB, found 0$"):
        memory_need_gb({"node_memory_gb": 0})
