"""The policy of a run: its name or class, its options, and the plan that is made of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from inspect import getdoc
from typing import Any, Final

from pybatsched.core.policy import Policy
from pybatsched.errors import InputError, setting, toml_problem
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file, split
from pybatsched.policies.predictions import add_predictor
from pybatsched.settings import FILE, TEXT, Checked, Kind, given, record_of_settings, text_of

_RESERVATIONS: Final = "host_reservations"
_PARTITIONS: Final = "node_partitions"


def _policy(value: Any) -> str | type[Policy] | None:
    return value if isinstance(value, str | type) else None


@record_of_settings
class PolicySpec(Checked):
    """A policy and its options. `label` is its name in tables and charts. `given_by` names the user's source."""

    policy: str | type[Policy] = given(
        "an installed policy, or path/to/file.py:Class; in Python also a subclass of Policy",
        Kind("the name of a policy, path/to/file.py:Class, or a subclass of Policy", _policy, "NAME"),
        "",
        alias="name",
    )
    options: Mapping[str, Any] = given(
        "options of the policy by name",
        Kind("options by name", lambda value: dict(value) if isinstance(value, Mapping) else None, "KEY=VALUE"),
        None,
        "-o",
    )
    config: str | None = given("options of policies, in tables [policy.NAME]", FILE, metavar="FILE.toml")
    host_reservations: str | None = given(
        "reservations of hosts, in tables [[reservation]] (docs/faults.md)",
        FILE,
        None,
        "--reservations",
        alias="reservations",
        metavar="FILE.toml",
    )
    node_partitions: str | None = given(
        "partitions of nodes as Slurm has them, such as 'batch: n[1-6], max_time 24h, default; gpu: n5-n6' "
        "(docs/nodes.md)",
        TEXT,
        None,
        "--partitions",
        metavar="TEXT",
    )
    label: str = given("name of the policy in tables and charts (default: its name and options)", TEXT, "")
    given_by: str = "-o"

    def __post_init__(self) -> None:
        super().__post_init__()
        options = dict(self.options or {})
        if isinstance(options.get(_RESERVATIONS), str | os.PathLike):  # a file, not a list of tables
            if self.host_reservations is not None:
                raise self._both(_RESERVATIONS)
            path = os.fspath(options.pop(_RESERVATIONS))
            object.__setattr__(self, _RESERVATIONS, path)
        object.__setattr__(self, "options", options)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the class of an installed policy, or of one in a file, which is found again by its name."""
        return {name: value for name, value in self.__dict__.items() if name not in {"source", "from_file"}}

    @cached_property
    def source(self) -> registry.PolicySource:
        """The class of the policy. Raises InputError for a wrong name."""
        if isinstance(self.policy, str):
            return registry.find(self.policy, trusted=True)
        return registry.of_class(self.policy)

    @property
    def title(self) -> str:
        """The label, or else the name and the options."""
        return self.label or label_of(self.source.name, self.options)

    @property
    def has_seed(self) -> bool:
        """Whether the policy uses the seed of the run: it has the option `seed`, and no value in `options`."""
        return "seed" in self.source.option_fields and "seed" not in self.options

    @cached_property
    def from_file(self) -> Mapping[str, Any]:
        """The options of the configuration file. Raises InputError."""
        return {} if self.config is None else _table(self.config, self.source.table_name)

    def _both(self, name: str) -> InputError:
        both = f"{setting(name)} and {setting('options', name)}"
        return InputError(f"{both}: expected only one of them, found both")

    def plan(self, seed: int | None = None) -> registry.PolicyPlan:
        """Return the policy for a run, with its checked options and the `seed` of the run. Raises InputError."""
        options = dict(self.options)
        if seed is not None and self.has_seed:
            options["seed"] = seed  # over that of the configuration file
        if isinstance(options.get("predict"), type):
            options["predict"] = add_predictor(options["predict"])
        if self.host_reservations is not None:
            if _RESERVATIONS in options:
                raise self._both(_RESERVATIONS)
            options[_RESERVATIONS] = reservations_of(self.host_reservations)
        if self.node_partitions is not None:
            if _PARTITIONS in options:
                raise self._both(_PARTITIONS)
            options[_PARTITIONS] = self.node_partitions
        plan = registry.PolicyPlan(
            self.source, options, self.from_file, self.config or "", given_by=self.given_by, trusted=True
        )
        plan.check_early()
        return plan

    def files(self) -> list[str]:
        """Return the files that the policy reads: its code, and those of its options."""
        plan = registry.PolicyPlan(self.source, self.options, trusted=True)
        named = [self.source.name, *plan.trusted_files(None).names]
        code = [str(split(name)[0]) for name in named if names_file(name)]
        return [*code, *(path for path in (self.config, self.host_reservations) if path)]

    def __repr__(self) -> str:
        return f"policy({self.title!r})"

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415  only for notebooks

        rows = []
        for name, one in self.source.option_fields.items():
            is_set = name in self.options
            value = self.options[name] if is_set else one.get_default(call_default_factory=True)
            shown = f"<b>{html.escape(str(value))}</b>" if is_set else html.escape(str(value))
            rows.append(f"<tr><th>{name}</th><td>{shown}</td><td>{html.escape(one.description or '')}</td></tr>")
        about = html.escape(summary_of(self.source.cls))
        table = f"<table><tr><th>option</th><th>value</th><th></th></tr>{''.join(rows)}</table>" if rows else ""
        return f"<p>policy <b>{html.escape(self.title)}</b>: {about}</p>{table}"


def label_of(name: str, options: Mapping[str, Any]) -> str:
    """Return the name of a policy with its options. Reservations and partitions are shown by their names."""
    shown: dict[str, Any] = {key: getattr(value, "__name__", value) for key, value in options.items()}
    if tables := shown.get(_RESERVATIONS):
        first, *others = (dict(table)["name"] for table in tables)
        shown[_RESERVATIONS] = f"{first} and {len(others)} more" if others else first
    if isinstance(shown.get(_PARTITIONS), str):
        shown[_PARTITIONS] = "+".join(part.partition(":")[0].strip() for part in shown[_PARTITIONS].split(";"))
    text = ", ".join(f"{key}={value}" for key, value in shown.items())
    return f"{name}({text})" if text else name


def summary_of(cls: type[Policy]) -> str:
    """Return the first line of the description of a policy."""
    return (getdoc(cls) or "").partition("\n")[0]


def reservations_of(path: str) -> list[dict[str, Any]]:
    """Read a file of reservations. Raises InputError with the file and the line."""
    from pybatsched.runs.reservations import read_reservations  # noqa: PLC0415  imports pydantic

    return read_reservations(text_of(_RESERVATIONS, path), path)


def _table(path: str, name: str) -> Mapping[str, Any]:
    """Read the options of a policy in a configuration file. Raises InputError."""
    import tomllib  # noqa: PLC0415  only for a file of options

    where = setting("config", path)
    try:
        content = tomllib.loads(text_of("config", path))
    except (ValueError, RecursionError) as error:  # not TOML, a number of thousands of digits
        raise InputError(f"{where}: {toml_problem(error)}") from None
    unknown = [key for key in content if key != "policy"]
    if unknown:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; expected tables [policy.NAME]")
    tables = content.get("policy", {})
    for other in tables if isinstance(tables, dict) else ():
        if other != name and other not in registry.available():
            raise InputError(
                f"{where}: unknown policy {other!r} in the table [policy.{other}]; expected an installed policy"
            )
    table = tables.get(name, {}) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        raise InputError(f"{where}: expected a table [policy.{name}]")
    return table
