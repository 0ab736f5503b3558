"""Models that are named and imported only if a value is given: their defaults are those of the models."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from support.places import ROOT

from pybatsched import Options, Policy, model_at
from pybatsched.core.model_refs import COMMON, DefaultOptions, ModelRef, model_of
from pybatsched.metrics.workload_fields import METRIC_FIELDS
from pybatsched.policies import registry

NAMED = [
    (name, attribute)
    for name in registry.available()
    for attribute in ("Options", "JobFields")
    if isinstance(model_of(registry.find(name).cls, attribute), ModelRef)
]


def defaults_of(model: Any) -> dict[str, str]:
    """Return the defaults of a model as texts, in order: not a number is not equal to itself."""
    return {name: repr(info.get_default()) for name, info in model.model_fields.items()}


def test_the_policies_with_one_queue_name_their_options() -> None:
    assert {("fcfs", "Options"), ("easy", "Options"), ("conservative", "Options")} <= set(NAMED)


@pytest.mark.parametrize(("policy", "attribute"), NAMED)
def test_the_defaults_are_those_of_the_model(policy: str, attribute: str) -> None:
    cls = registry.find(policy).cls
    ref = model_of(cls, attribute)
    assert ref.load() is getattr(cls, attribute)
    assert defaults_of(ref.load()) == {name: repr(value) for name, value in ref.defaults.items()}
    if attribute == "Options":
        assert DefaultOptions(ref.defaults).model_dump(mode="json") == ref.load()().model_dump(mode="json")


def test_the_defaults_of_metrics_are_those_of_their_model() -> None:
    assert defaults_of(METRIC_FIELDS.load()) == {name: repr(value) for name, value in METRIC_FIELDS.defaults.items()}


def test_the_common_options_are_those_of_the_base_model() -> None:
    assert defaults_of(Options) == {name: repr(value) for name, value in COMMON.items()}
    assert model_of(Policy, "Options").defaults == COMMON


def test_options_are_a_model_as_soon_as_one_is_given() -> None:
    source = registry.find("easy")
    without = registry.PolicyPlan(source).options_for(None)
    given = registry.PolicyPlan(source, {"order": "sjf"}).options_for(None)
    assert (type(without).__name__, without.order, without.backfill_order) == ("DefaultOptions", "fcfs", None)
    assert (type(given).__name__, given.order, given.backfill_order) == ("EasyOptions", "sjf", None)


class OwnOptions(Options):
    size: int = 3


class Own(registry.find("easy").cls):  # type: ignore[misc]
    Options = OwnOptions


class BelowOwn(Own):
    Options = model_at("support.no_such_module:Model", more=1)


class Below(registry.find("easy").cls):  # type: ignore[misc]
    """A policy of another author without options of its own."""

    def __init__(self, options: Any) -> None:
        super().__init__(options.model_copy(update={"order": "sjf"}))


def test_policies_of_other_authors_get_the_model() -> None:
    plan = registry.PolicyPlan(registry.PolicySource("below", Below, "below.py:Below"))
    options = plan.options_for(None)
    assert isinstance(options, Below.Options)
    assert Below(options).options.order == "sjf"


def test_a_model_below_a_named_one_is_the_model_itself() -> None:
    assert model_of(Own, "Options") is OwnOptions


def test_a_named_model_below_another_model_is_loaded() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        model_of(BelowOwn, "Options")


def test_the_included_policies_are_those_of_the_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shipped = project["entry-points"][registry.GROUP]
    assert {name: place for name, place in shipped.items() if "studies" not in place} == registry.INCLUDED
