"""Policies for experiments: by name, or a class of a notebook, with options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl

from pybatsched.core.policy import Policy
from pybatsched.errors import InputError
from pybatsched.experiment.arguments import public
from pybatsched.policies import registry
from pybatsched.runs.policies import PolicySpec, summary_of

#: A policy: its name, a class, or the result of `policy`.
PolicyLike: TypeAlias = str | type[Policy] | PolicySpec


@public
def policy(name: PolicyLike, *, label: str | None = None, **options: Any) -> PolicySpec:
    """Choose a policy and its options. Raises InputError for a wrong name or option.

    `name` is an installed policy, a file (``my_policy.py:MyPolicy``) or a subclass of `Policy`. The option `predict`
    may be a subclass of `Predictor`.

    >>> policy("easy", order="sjf")
    policy('easy(order=sjf)')
    """
    if isinstance(name, PolicySpec):
        replaced: dict[str, Any] = dict.fromkeys({"host_reservations", "node_partitions"} & options.keys())
        options = {**name.options, **options}
        chosen = replace(name, options=options, label=label or name.label, given_by="Python", **replaced)
    else:
        chosen = PolicySpec(name, options, label=label or "", given_by="Python")
    chosen.plan()
    return chosen


def available_policies() -> pl.DataFrame:
    """Return the installed policies, each with one sentence. Policies that cannot be loaded are left out."""
    rows = []
    for name in registry.available():
        try:
            rows.append({"policy": name, "summary": summary_of(registry.find(name).cls)})
        except InputError:
            continue
    return pl.DataFrame(rows)
