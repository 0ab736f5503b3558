"""Policies for experiments: by name, or a class of a notebook, with options."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Any, TypeAlias

from pybatsched.core.policy import Policy
from pybatsched.errors import InputError
from pybatsched.experiment.arguments import public
from pybatsched.experiment.log import pl
from pybatsched.policies import registry
from pybatsched.policies.predictions import add_predictor, added_predictor


@dataclass(frozen=True)
class PolicyChoice:
    """A policy with its options. `label` is its name in tables and charts. Make one with `policy`."""

    source: registry.PolicySource
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def plan(self, seed: int | None = None) -> registry.PolicyPlan:
        """Return the policy for a run, with its checked options. Raises InputError.

        `seed` is its option `seed`, if it has one and none is given.
        """
        given = dict(self.options)
        if seed is not None and self.has_seed:
            given["seed"] = seed
        plan = registry.PolicyPlan(self.source, given, given_by="Python", trusted=True)
        plan.check_early()
        return plan

    @property
    def has_seed(self) -> bool:
        """Whether the policy uses random numbers: it has the option `seed`, and no value for it is given."""
        return "seed" in self.source.option_fields and "seed" not in self.options

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an installed policy, or one of a file, by its name."""
        name = self.source.name if registry.is_installed(self.source.name) else self.source.cls
        options = dict(self.options)
        if "predict" in options:
            options["predict"] = added_predictor(options["predict"]) or options["predict"]
        return _choice, (name, options, self.label)

    def __repr__(self) -> str:
        return f"policy({self.label!r})"

    def _repr_html_(self) -> str:
        rows = []
        for name, one in self.source.option_fields.items():
            is_set = name in self.options
            value = self.options[name] if is_set else one.get_default(call_default_factory=True)
            shown = f"<b>{html.escape(str(value))}</b>" if is_set else html.escape(str(value))
            rows.append(f"<tr><th>{name}</th><td>{shown}</td><td>{html.escape(one.description or '')}</td></tr>")
        about = html.escape(_summary(self.source.cls))
        table = f"<table><tr><th>option</th><th>value</th><th></th></tr>{''.join(rows)}</table>" if rows else ""
        return f"<p>policy <b>{html.escape(self.label)}</b>: {about}</p>{table}"


#: A policy: its name, a class, or the result of `policy`.
PolicyLike: TypeAlias = str | type[Policy] | PolicyChoice


@public
def policy(name: PolicyLike, *, label: str | None = None, **options: Any) -> PolicyChoice:
    """Choose a policy and its options. Raises InputError for a wrong name or option.

    `name` is an installed policy, a file (``my_policy.py:MyPolicy``) or a subclass of `Policy`. The option `predict`
    may be a subclass of `Predictor`.

    >>> policy("easy", order="sjf")
    policy('easy(order=sjf)')
    """
    if isinstance(name, PolicyChoice):
        own = name.label != _label(name.source, name.options)
        source, options = name.source, {**name.options, **options}
        label = label or (name.label if own else None)
    else:
        source = source_of(name)
    if isinstance(options.get("predict"), type):
        options["predict"] = add_predictor(options["predict"])
    chosen = PolicyChoice(source, options, label or _label(source, options))
    chosen.plan()
    return chosen


def source_of(name: PolicyLike) -> registry.PolicySource:
    """Return a policy without its options. Raises InputError for a wrong name."""
    if isinstance(name, PolicyChoice):
        return name.source
    return registry.find(name, trusted=True) if isinstance(name, str) else registry.of_class(name)


def _label(source: registry.PolicySource, options: Mapping[str, Any]) -> str:
    text = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{source.name}({text})" if text else source.name


def _choice(name: PolicyLike, options: Mapping[str, Any], label: str) -> PolicyChoice:
    return policy(name, label=label, **options)


def available_policies() -> pl.DataFrame:
    """Return the installed policies, each with one sentence. Policies that cannot be loaded are left out."""
    rows = []
    for name in registry.available():
        try:
            rows.append({"policy": name, "summary": _summary(registry.find(name).cls)})
        except InputError:
            continue
    return pl.DataFrame(rows)


def _summary(cls: type[Policy]) -> str:
    return (getdoc(cls) or "").partition("\n")[0]
