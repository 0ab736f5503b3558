"""Write the tables of docs/settings.md: all settings of runs, and where each of them can be given.

The settings are the fields of the records in `pybatsched.runs.spec`. Options are those of the parsers of the commands,
keywords those of the signatures of the functions, and keys those of the tables of campaigns.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

import pybatsched
from pybatsched.campaign.batch_jobs import BatchSpec
from pybatsched.campaign.keys import as_key
from pybatsched.campaign.spec import PlatformTable, PolicyTable, Spec
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.core.instants import A_SPAN
from pybatsched.gym import SchedulingEnv
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.settings import Checked, Setting
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.workload.inject.checkpoints import Checkpointing
from support.places import ROOT, module_of

SITE: Final = module_of("site_pages", ROOT / "release" / "site_pages.py")
COMMANDS: Final = ("simulate", "run", "workload convert")
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "simulate": pybatsched.simulate,
    "Simulation": pybatsched.Simulation,
    "policy": pybatsched.policy,
    "read_workload": pybatsched.read_workload,
    "SchedulingEnv": SchedulingEnv,
}
#: The records with settings of their own, and the table of a campaign's file that has them.
TABLES: Final[dict[type[Checked], type[BaseModel]]] = {
    RunSpec: Spec,
    WorkloadSpec: WorkloadTable,
    MachineSpec: PlatformTable,
    PolicySpec: PolicyTable,
}
#: The records that are the value of one setting of a machine.
VALUES: Final[dict[type[Checked], str]] = {FailureModel: "failures", Checkpointing: "checkpoint"}
#: How to give a setting where it is no option, keyword or key: each with the reason, or with what to use instead.
ELSEWHERE: Final = {
    (RunSpec, "seed", "campaign"): "`seeds`, a list for all runs",
    (RunSpec, "allow_empty", "campaign"): "none: a workload without jobs is an error",
    (WorkloadSpec, "file", "Python"): "`file` (the first argument)",
    (MachineSpec, "failures", "option"): "the options of [failures](#failures)",
    (MachineSpec, "checkpoint", "option"): "the options of [checkpoints](#checkpoints)",
    (PolicySpec, "config", "Python"): "`config` (not in Python: options are keywords)",
    (PolicySpec, "host_reservations", "Python"): "`host_reservations` (an option of every policy)",
    (PolicySpec, "node_partitions", "Python"): "`node_partitions` (an option of every policy)",
    (PolicySpec, "label", "option"): "none: a command has one policy",
}
_DEFAULT: Final = re.compile(r" \((?:default: ([^()]*)|[^()]*on by default[^()]*)\)|; default: ([^()]*)(?=\))")


class Place(NamedTuple):
    """Where a setting can be given: how it is written there, and the commands or functions that take it."""

    names: tuple[str, ...] = ()
    takers: tuple[str, ...] = ()


def places(record: type[Checked], name: str) -> dict[str, Place]:
    """Return where a setting can be given. A kind of place that is empty does not have it."""
    about = record.settings()[name]
    parent = VALUES.get(record)
    commands = tuple(command for command in COMMANDS if _has_option(command, record, name, about))
    takers = _takers(MachineSpec, parent) if parent else _takers(record, name)
    return {
        "Python": Place((name,) if takers else (), takers),
        "option": Place(about.options[-1:] if commands else (), tuple(one.split()[-1] for one in commands)),
        "campaign": Place(_keys(record, name)),
    }


@cache
def _actions(command: str) -> dict[tuple[str, ...], str]:
    """Return the help of the options of a command, by their names."""
    (parser,) = (one for one in SITE.commands() if one.prog == f"pybatsched {command}")
    return {tuple(one.option_strings): (one.help or "").replace("%%", "%") for one in SITE.shown_actions(parser)}


def _has_option(command: str, record: type[Checked], name: str, about: Setting) -> bool:
    """Return whether a command has the option of a setting. Where two settings have one option, its help decides."""
    text = _actions(command).get(about.options)
    settings = {(one, key): other for one in (*TABLES, *VALUES) for key, other in one.settings().items()}
    is_shared = any(other.options == about.options for at, other in settings.items() if at != (record, name))
    return text is not None and (not is_shared or text.startswith(about.negated or about.help))


def _takers(record: type[Checked], name: str) -> tuple[str, ...]:
    """Return the functions that take a setting. Where two settings have one name, the docstring decides."""
    twins = [one for one in TABLES if name in one.settings() and one is not record]
    line = f"\n{name}: {record.settings()[name].help}."
    found = []
    for function, one in FUNCTIONS.items():
        documented = one if inspect.isfunction(one) else one.__init__
        if name in inspect.signature(one).parameters and (not twins or line in (documented.__doc__ or "")):
            found.append(function)
    return tuple(found)


def _keys(record: type[Checked], name: str) -> tuple[str, ...]:
    """Return the keys of a setting in the file of a campaign, the usual one first."""
    if record in VALUES:
        return (name,)
    table: Any = TABLES[record]
    if as_key(name) in {as_key(one) for keys in getattr(table, "SETTINGS", {}).values() for one in keys}:
        return tuple(dict.fromkeys((as_key(name), name)))
    return (name,) if name in table.model_fields else ()


def table(record: type[Checked]) -> str:
    """Return the table of a record, below a line with the commands and functions that take most of its settings."""
    found = {name: places(record, name) for name in record.settings()}
    usual = {
        kind: Counter(one[kind].takers for one in found.values() if one[kind].takers).most_common(1)[0][0]
        for kind in ("Python", "option")
    }
    lines = [f"Commands: {_listed(usual['option'])}. Functions: {_listed(usual['Python'])}.", ""]
    lines += ["| setting | option | campaign | meaning | values | default |", "|---|---|---|---|---|---|"]
    for name, about in record.settings().items():
        cells = []
        for kind, place in found[name].items():
            is_name = kind == "campaign" and place.names == (name,)
            spelled = " or ".join(f"`{one}`" for one in place.names) if not is_name else "the same"
            differs = place.takers and place.takers != usual[kind]
            cells.append(
                f"{spelled} ({_listed(place.takers)})" if differs else spelled or ELSEWHERE[record, name, kind]
            )
        values = _text("a time" if about.kind.expected == A_SPAN else about.kind.expected)
        lines.append(f"| {' | '.join([*cells, _meaning(about), values, _default(record, name, about)])} |")
    return "\n".join([*lines, ""])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _meaning(about: Setting) -> str:
    """Return the help of a setting without its default and a list of its values."""
    listed = f": {', '.join(about.kind.choices)}" if about.kind.choices else ""
    return _text(_DEFAULT.sub("", about.help).removesuffix(listed))


def _text(text: str) -> str:
    """Write text for a cell, with options and tables as code, and with links to pages."""
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*|\{[^}]*\}|\[+[\w.]+\]+)", r"`\1`", text)
    return re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", SITE.cell(text))


def _default(record: type[Checked], name: str, about: Setting) -> str:
    """Return the default of a setting, with its unit; else what its help says of it."""
    value = record.default(name)
    if isinstance(value, bool) or (value and isinstance(value, str)):
        return f"`{value}`".lower() if value in {True, False} else f"`{value}`"
    if isinstance(value, int | float):
        return f"{value:g} {about.kind.unit}".strip()
    found = _DEFAULT.search(about.help)
    return SITE.cell(found[1] or found[2]) if found else ""


def of_campaigns() -> dict[str, str]:
    """Return the table of the options for jobs of a batch system."""
    lines = ["| option | meaning | values | default |", "|---|---|---|---|"]
    for name, about in BatchSpec.settings().items():
        cells = (
            f"`{about.options[-1]}`",
            _meaning(about),
            _text(about.kind.expected),
            _default(BatchSpec, name, about),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return {"batchspec": "\n".join([*lines, ""])}


def tables() -> dict[str, str]:
    """Return the table of each record, by the name in its marker."""
    return {record.__name__.lower(): table(record) for record in (*TABLES, *VALUES)}
