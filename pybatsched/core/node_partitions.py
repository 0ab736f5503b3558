"""Partitions as Slurm has them: named sets of nodes, which may share nodes, with limits and a priority.

Users describe them in one text: ``batch: n[1-6], max_time 24h, default; gpu: n5-n6, max_nodes 2, priority 10``. They
restrict where jobs start. The partitions of local schedulers (`pybatsched.core.cluster.Partition`) share no processors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched.core.instants import A_SPAN, span_of
from pybatsched.core.node_lists import nodes_in, parts_of
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.intervals import IntervalSet

#: The field of a job with the names of its partitions, separated by commas.
FIELD: Final = "partition"
#: The option of policies with the partitions.
OPTION: Final = "node_partitions"


class PartitionSpec(NamedTuple):
    """A partition as the user describes it. `nodes` are names and ranges of names; `max_nodes` is 0 for no limit."""

    name: str
    nodes: str
    max_time_s: float = math.inf
    max_nodes: int = 0
    priority: int = 0
    is_default: bool = False


class NodePartition(NamedTuple):
    """A partition on a machine: its nodes, as a set of bits, with their processors, and its limits."""

    name: str
    nodes: int
    procs: IntervalSet
    max_time_s: float = math.inf
    max_nodes: int = 0
    priority: int = 0


def specs_of(options: Any) -> tuple[PartitionSpec, ...]:
    """Return the option `node_partitions` of a policy's options; empty if it is not set."""
    text = getattr(options, OPTION, None)
    return () if text is None else parse_partitions(text)


def parse_partitions(text: str) -> tuple[PartitionSpec, ...]:
    """Return the partitions of a description. Raises ValueError for an invalid one. O(text).

    >>> for spec in parse_partitions("batch: n[1-4,6], max_time 24h, default; gpu: n5-n6, max_nodes 2, priority 10"):
    ...     print(*spec)
    batch n[1-4,6] 86400.0 0 0 True
    gpu n5-n6 inf 2 10 False
    """
    specs = [_parse(part.strip()) for part in re.split(r"[;\n]", text) if part.strip()]
    names = [spec.name for spec in specs]
    if not specs:
        raise ValueError("expected partitions such as 'batch: n[1-6], max_time 24h, default; gpu: n5-n6', found none")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"partition {name}: another partition has this name; expected unique names")
    defaults = [spec.name for spec in specs if spec.is_default]
    if len(defaults) > 1:
        raise ValueError(f"partitions {' and '.join(defaults)} are the default; expected one at most")
    return tuple(specs)


def _parse(text: str) -> PartitionSpec:
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if not colon or not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"expected a name, a colon and nodes, such as 'batch: n[1-6]', found {text!r:.60}")
    nodes, values = list[str](), dict[str, Any]()
    for part in parts_of(rest):
        word, _, value = part.strip().partition(" ")
        if word in _LIMITS:
            read, field, expected = _LIMITS[word]
            found = read(value.strip())
            if found is None or field in values:
                raise ValueError(f"partition {name}: {word}: expected {expected} once, found {part.strip()!r:.60}")
            values[field] = found
        elif word and not value:
            nodes.append(word)
        else:
            expected = f"nodes, {', '.join(_LIMITS)}, separated by commas"
            raise ValueError(f"partition {name}: expected {expected}, found {part.strip()!r:.60}")
    if not nodes:
        raise ValueError(f"partition {name}: expected its nodes, such as n[1-6] or all, found none")
    return PartitionSpec(name, ",".join(nodes), **values)


def _count(text: str, least: int = 0) -> int | None:
    found = re.fullmatch(r"[0-9]{1,9}", text)
    return int(text) if found and int(text) >= least else None


#: The words of a description: how the value is read, the field, and what is expected.
_LIMITS: Final = {
    "max_time": (span_of, "max_time_s", A_SPAN),
    "max_nodes": (lambda text: _count(text, 1), "max_nodes", "a number of nodes from 1"),
    "priority": (_count, "priority", "a whole number from 0"),
    "default": (lambda text: True if not text else None, "is_default", "the word alone"),
}


def places_of(spec: PartitionSpec, names: Sequence[str]) -> list[int]:
    """Return the places of a partition's nodes among the names of all nodes. O(nodes). Raises InputError.

    A range may also be ``first-last``, with the names of two nodes.

    >>> places_of(PartitionSpec("p", "n[0-1],n-2-x"), ["n0", "n1", "n-2", "m", "x"])
    [0, 1, 2, 3, 4]
    >>> places_of(PartitionSpec("p", "all"), ["n0", "n1"])
    [0, 1]
    """
    known = {name: place for place, name in enumerate(names)}
    found = set[int]()
    for part in parts_of(spec.nodes):
        listed = _listed(part)
        if part in known or (listed and all(name in known for name in listed)):
            found.update(known[name] for name in (listed if part not in known else [part]))
        elif part == "all":
            found.update(known.values())
        else:
            found.update(_range(spec, part, known))
    return sorted(found)


def _listed(part: str) -> list[str]:
    try:
        return nodes_in(part)
    except ValueError:
        return []


def _range(spec: PartitionSpec, part: str, known: Mapping[str, int]) -> range:
    for dash in re.finditer("-", part):
        first, last = known.get(part[: dash.start()]), known.get(part[dash.end() :])
        if first is not None and last is not None and first <= last:
            return range(first, last + 1)
    some = ", ".join([*known][:3])
    raise InputError(
        f"option {OPTION}: partition {spec.name}: expected nodes of the machine ({some}{', …' * (len(known) > 3)}), "
        f"found {part!r:.60}"
    )


def named_by(fields: Mapping[str, Any]) -> list[str]:
    """Return the names of the partitions in the fields of a job, each once; none if it has no such field."""
    value = fields.get(FIELD)
    return [] if value is None else list(dict.fromkeys(filter(None, (part.strip() for part in str(value).split(",")))))


def problem_with(fields: Mapping[str, Any], specs: Sequence[PartitionSpec]) -> str | None:
    """Return which partitions a job may name instead of an unknown one; None if it names known ones. O(names)."""
    named, known = named_by(fields), [spec.name for spec in specs]
    if not named:
        if any(spec.is_default for spec in specs):
            return None
        return f"expected one of {', '.join(known)}, because no partition is the default; found none"
    unknown = [name for name in named if name not in known]
    return f"expected one or some of {', '.join(known)}, found {unknown[0]!r:.60}" if unknown else None
