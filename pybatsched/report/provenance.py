"""Describe what was run, for the page: policy and options, machine, workloads, versions, and the command."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError, quantity, setting
from pybatsched.metrics.saved_runs import READ_OPTIONS, SavedRun, read_options_of
from pybatsched.report.durations import duration_text


def labels_of(prefixes: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """Return a label for each run: those `given`, or the fewest parts of the paths in which they differ.

    Later parts are preferred. Runs with equal paths get numbers. Raises InputError if labels were given, but not a
    different one for each run. O(runs · 2^k) where paths differ in k of their parts.

    >>> labels_of(["out/fcfs", "out/easy"]), labels_of(["seed1/out/easy", "seed2/out/easy"])
    (['fcfs', 'easy'], ['seed1', 'seed2'])
    >>> labels_of(["a/easy", "b/easy", "b/fcfs"]), labels_of(["x/easy", "x/easy"])
    (['a/easy', 'b/easy', 'b/fcfs'], ['easy (1)', 'easy (2)'])
    """
    if given:
        if len(given) != len(prefixes):
            found = f"{quantity(len(given), 'label')} for {quantity(len(prefixes), 'run')}"
            raise InputError(f"{setting('label')}: {found}; expected one label per run, or none")
        for k, label in enumerate(given):
            if not label.strip():
                raise InputError(f"{setting('label')}: found an empty label for {prefixes[k]}; expected a name")
            if label in given[:k]:
                first = prefixes[given.index(label)]
                raise InputError(
                    f"{setting('label', label)}: found for {first} and for {prefixes[k]}; expected different names"
                )
        return list(given)
    if len(prefixes) == 1:
        return [_name(prefixes[0])]
    parts = [tuple(reversed(Path(prefix).parts)) for prefix in prefixes]
    columns = [[own[at] if at < len(own) else "" for own in parts] for at in range(max(map(len, parts)))]
    differing = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    for n in range(1, len(differing) + 1):
        for chosen in combinations(differing, n):
            own = zip(*(columns[at] for at in reversed(chosen)), strict=True)
            labels = ["/".join(filter(None, words)) for words in own]
            if all(labels) and len(set(labels)) == len(labels):
                return labels
    return [f"{_name(prefix)} ({number})" for number, prefix in enumerate(prefixes, 1)]


def relabelled(known: Sequence[str], given: Sequence[str], prefixes: Sequence[str] = ()) -> list[str]:
    """Return labels after ``--label``: one new label for each known one, or OLD=NEW for some of them.

    OLD is a known label or a prefix. Raises InputError.

    >>> relabelled(["fcfs", "easy"], ["easy=EASY"]), relabelled(["fcfs", "easy"], ["First", "a=b"])
    (['fcfs', 'EASY'], ['First', 'a=b'])
    """
    places = {name: place for names in (prefixes, known) for place, name in enumerate(names)}
    pairs = [label.partition("=") for label in given]
    if not any(old in places and equals for old, equals, _ in pairs) and len(given) in {0, len(known)}:
        return labels_of(known, given) if given else list(known)
    labels = list(known)
    for (old, equals, new), label in zip(pairs, given, strict=True):
        if not equals or old not in places:
            raise InputError(
                f"{setting('label', label[:60])}: expected OLD=NEW, where OLD is one of {', '.join(known)}; or give "
                f"one {setting('label')} for each"
            )
        labels[places[old]] = new
    return labels_of(known, labels)


def _name(prefix: str) -> str:
    return Path(prefix).name or prefix


_UNKNOWN: Final = "-"
#: Names of simulators, by the member of a summary's versions.
_SIMULATORS: Final = {"batsim": "Batsim", "behaves_as_batsim": "embedded, as Batsim"}
#: Members of `batsim_options` that are not switches, or on by default.
_USUAL: Final = frozenset(("storage-sharing", "redis-hostname", "redis-port", "redis-prefix", "sched-config"))


def rows_of(runs: Sequence[SavedRun], tau_s: float) -> list[tuple[str, list[str]]]:
    """Return the rows of "What was run": a name, and the value for each run; no empty rows. O(runs)."""
    columns = [_of_run(run, tau_s) for run in runs]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, _UNKNOWN) for column in columns]) for name in names]
    return [(name, values) for name, values in rows if any(value != _UNKNOWN for value in values)]


def _of_run(run: SavedRun, tau_s: float) -> dict[str, str]:
    summary = run.summary
    inputs, policy, versions = (_mapping(summary.get(name)) for name in ("inputs", "policy", "versions"))
    platform = "\n".join(_files(inputs.get("platform")))
    equal = "equal " if inputs and not platform else ""
    size = quantity(run.n_procs, f"{equal}processor") if run.n_procs else ""
    clusters = quantity(len(run.clusters), "cluster") if run.clusters else ""
    seed = summary.get("seed")
    return {
        "policy": _policy(policy) if policy else "an external scheduler" if inputs else _UNKNOWN,
        "its options": _pairs(_set_options(policy)) or ("none" if policy else _UNKNOWN),
        "seed": _UNKNOWN if seed is None else str(seed),
        "platform": "\n".join(filter(None, (platform, ", ".join(filter(None, (size, clusters)))))) or _UNKNOWN,
        "workload": "\n".join(_files(inputs.get("workloads"))) or _UNKNOWN,
        "jobs in it": f"{n:,}" if isinstance(n := summary.get("n_jobs_in_workloads"), int) else _UNKNOWN,
        **_read_options(summary),
        "external events": "\n".join(_files(inputs.get("events"))) or _UNKNOWN,
        "failures": _failures(_mapping(summary.get("failures"))) or _UNKNOWN,
        "checkpoints": _checkpoints(_mapping(summary.get("checkpoint"))) or _UNKNOWN,
        "τ of bounded slowdowns": _tau(run, tau_s),
        "options of Batsim": _switches(_mapping(summary.get("batsim_options"))) or _UNKNOWN,
        "simulator": next((f"{text} {versions[name]}" for name, text in _SIMULATORS.items() if name in versions), "-"),
        "versions": ", ".join(f"{name} {versions[name]}" for name in ("pybatsched", "python") if name in versions)
        or _UNKNOWN,
        "command": str(summary.get("command") or _UNKNOWN),
    }


def _failures(settings: Mapping[str, Any]) -> str:
    r"""Return the settings of random failures as text; empty if there are none.

    >>> _failures({"mtbf_s": 2592000.0, "repair": "4h", "of": "node", "law": "exponential", "together": "", "seed": 1})
    'MTBF of each host 30 d, exponential\nrepairs 4h\nseed 1'
    """
    mtbf_s = settings.get("mtbf_s")
    if not isinstance(mtbf_s, int | float):
        return ""
    together = settings.get("together")
    unit = "the machine" if settings.get("of") == "system" else f"hosts of one {together}" if together else "each host"
    lines = [f"MTBF of {unit} {duration_text(mtbf_s)}, {settings.get('law', _UNKNOWN)}"]
    lines += [f"hosts of one {together} fail at once"] if together else []
    return "\n".join([*lines, f"repairs {settings.get('repair', _UNKNOWN)}", f"seed {settings.get('seed', _UNKNOWN)}"])


def _checkpoints(settings: Mapping[str, Any]) -> str:
    r"""Return the settings of checkpoints as text; empty if there are none.

    >>> _checkpoints({"interval": "daly", "dump": "5m", "read": None})
    "interval by Daly's formula\ndumps 5m, reads 5m"
    """
    if not settings:
        return ""
    interval, dump = settings.get("interval"), settings.get("dump", _UNKNOWN)
    first = "interval by Daly's formula" if interval == "daly" else f"after every {interval} of work"
    return f"{first}\ndumps {dump}, reads {settings.get('read') or dump}"


def _tau(run: SavedRun, tau_s: float) -> str:
    """Return the bound of the page, and that of the run's own table if it differs."""
    return f"{tau_s:g} s" + ("" if run.tau_s in {None, tau_s} else f"\n({run.tau_s:g} s in its own table)")


def _read_options(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the options with which workloads were read that differ from the default."""
    how = read_options_of({**summary, **_mapping(summary.get("prepared"))})
    chosen = how["selection"]
    units = how["units"]
    return {
        "jobs chosen": _pairs(chosen) if isinstance(chosen, dict) and chosen else _UNKNOWN,
        "load": _UNKNOWN if how["scale_load"] is None else f"submission times divided by {how['scale_load']!s:.12}",
        "walltimes": str(how["walltimes"] or _UNKNOWN),
        "sizes in": f"{units}s" if units else _changed(how, "size_in"),
        "times in": _changed(how, "timezone"),
        "read as": _changed(how, "log_format"),
        "columns by": _changed(how, "mapping"),
        "malformed lines": "left out" if how["lenient"] is True else _UNKNOWN,
        "memory in": _changed(how, "memory_unit"),
    }


def _changed(how: Mapping[str, Any], name: str) -> str:
    """Return an option as text, if it is not the default."""
    return str(how[name]) if how[name] != READ_OPTIONS[name] else _UNKNOWN


def command_html(command: str) -> str:
    """Return a command as HTML in which no line breaks within an option's name.

    >>> command_html("pybatsched simulate --procs 4 -w 'a b'")
    'pybatsched simulate <span>--procs</span> 4 <span>-w</span> &#x27;a b&#x27;'
    """
    words = map(html.escape, command.split(" "))
    return " ".join(f"<span>{word}</span>" if word.startswith("-") else word for word in words)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _policy(policy: Mapping[str, Any]) -> str:
    return f"{policy.get('name')}\n({policy['origin']})" if policy.get("origin") else str(policy.get("name"))


def _set_options(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a policy that have a value. Null is the default of options that are rarely set."""
    return {name: value for name, value in _mapping(policy.get("options")).items() if value is not None}


def _pairs(options: Mapping[str, Any]) -> str:
    """Return options in the format of -o; texts without quotes."""
    return "\n".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in options.items()
    )


def _files(files: Any) -> list[str]:
    """Return file names, each with the start of its digest."""
    named = [file for file in files or () if isinstance(file, dict)] if isinstance(files, list) else []
    return [f"{file.get('file')}\n(sha256 {str(file.get('sha256', ''))[:12]}…)" for file in named]


def _switches(options: Mapping[str, Any]) -> str:
    """Return the options of Batsim that are on, and those that are off but on by default."""
    on = [name for name, value in options.items() if value is True and name not in _USUAL]
    off = ["no storage-sharing"] if options.get("storage-sharing") is False else []
    return ", ".join([*on, *off])


#: Members of a campaign's parts that are shown separately.
_SHOWN_SEPARATELY: Final = frozenset(("name", "label", "options", "file"))


def of_campaign(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows that describe a campaign: a name, and the text from its file. Empty rows are left out."""
    spec, versions = _mapping(manifest.get("spec")), _mapping(manifest.get("versions"))
    parts = {name: [_mapping(part) for part in spec.get(name) or ()] for name in ("workload", "platform", "policy")}
    if not parts["policy"]:  # the manifest has no description
        return []
    seeds = ", ".join(map(str, spec.get("seeds") or ()))
    repeats = spec.get("repeats", 1)
    where = _pairs(_mapping(spec.get("where")))
    rows = [
        ("policies", "\n".join(_policy_of_campaign(part) for part in parts["policy"])),
        ("platforms", "\n".join(_part(part) for part in parts["platform"])),
        ("workloads", "\n".join(_part(part) for part in parts["workload"])),
        ("seeds", seeds + (f", each {repeats} times" if repeats != 1 else "")),
        ("τ of bounded slowdowns", f"{spec['tau_s']:g} s" if isinstance(spec.get("tau_s"), int | float) else ""),
        ("baseline", str(spec.get("baseline") or "") + (f", jobs with {where}" if where else "")),
        ("versions", ", ".join(f"{name} {versions[name]}" for name in ("pybatsched", "python") if name in versions)),
        ("command", str(manifest.get("command") or "")),
    ]
    return [(name, text) for name, text in rows if text]


def _policy_of_campaign(part: Mapping[str, Any]) -> str:
    """Return a policy and its options as text."""
    name, label = str(part.get("name")), part.get("label")
    more = [f"{key}={_written(value)}" for key, value in _mapping(part.get("options")).items()]
    more += [f"only on {', '.join(map(str, part[key]))}" for key in ("platforms", "workloads") if part.get(key)]
    return (f"{label}: {name}" if label and label != name else name) + (f" ({', '.join(more)})" if more else "")


def _part(part: Mapping[str, Any]) -> str:
    """Return a workload or a platform as text: its name and its members."""
    members = [str(part["file"])] if part.get("file") else []
    members += [
        name if value is True else f"{name}={_written(value)}"
        for name, value in part.items()
        if name not in _SHOWN_SEPARATELY and value not in (None, False, "", [], {}, 0)
    ]
    return f"{part.get('name')}: {', '.join(members)}" if members else str(part.get("name"))


def _written(value: Any) -> str:
    """Return a value in a notation close to TOML; empty members are left out."""
    if isinstance(value, dict):
        inner = ((name, one) for name, one in value.items() if one not in (None, [], {}))
        return "{" + ", ".join(f"{name}={_written(one)}" for name, one in inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)
