"""Find the platform that a user names: a file, or a machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pybatsched.errors import InputError, did_you_mean
from pybatsched.machines.catalogue import MACHINES
from pybatsched.machines.model import Machine
from pybatsched.machines.nodes import machine_of_nodes
from pybatsched.machines.write import Variant, platform_xml
from pybatsched.platform import xml
from pybatsched.platform.model import DEFAULT_MASTER, Platform

_ENERGY = "-energy"
_SLURM_LINE = re.compile(
    rb"^[ \t]*((ClusterName|NodeName|PartitionName)[ \t]*=|include[ \t])", re.IGNORECASE | re.MULTILINE
)
_MOST_READ = 1 << 16  # bytes, of a file that may be a slurm.conf


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a platform: a file at `path`, or a generated `text`. `name` is the user's argument."""

    name: str
    path: Path | None
    text: str = ""

    def data(self) -> bytes:
        """Return the content of the platform file. Raises InputError if it cannot be read."""
        return self.text.encode() if self.path is None else xml.load(self.path)

    def read(self, *, master: str = DEFAULT_MASTER, roles: Mapping[str, str] | None = None) -> Platform:
        """Read the platform, see `pybatsched.platform.xml.parse`."""
        return xml.parse(self.data(), self.name, master=master, roles=roles)


def of_nodes(text: str) -> Source:
    """Return the platform of a machine that is described by its nodes. Raises InputError."""
    return Source("nodes", None, platform_xml(machine_of_nodes(text), Variant()))


def find(name: str, *, energy: bool = False) -> Source:
    """Find a platform: a file, else a machine, with `energy` with its power. Raises InputError with the names."""
    found = None if os.path.isfile(name) else variant_of(name)  # noqa: PTH113  false for an impossible name
    if found is not None:
        machine, variant = found
        with_power = variant.energy or (energy and machine.has_power)
        return Source(name, None, platform_xml(machine, replace(variant, energy=with_power)))
    if _is_slurm_conf(name):
        return Source(name, None, platform_xml(machine_of(name)[0], Variant()))
    if not os.path.exists(name) and "/" not in name and "." not in name:  # noqa: PTH110  as above
        names = did_you_mean(name, _names(), f": expected a file, or one of the machines {_known()}")
        raise InputError(f"unknown platform {name!r:.80}{names}")
    return Source(name, Path(name))


def _is_slurm_conf(name: str) -> bool:
    """Return whether a file describes a machine as slurm.conf does, by its ending or its lines."""
    if name.endswith(".conf"):
        return True
    try:
        with Path(name).open("rb") as file:
            return _SLURM_LINE.search(file.read(_MOST_READ)) is not None
    except (OSError, ValueError):
        return False


def machine_of(name: str) -> tuple[Machine, Variant]:
    """Find a machine by name, or that of a slurm.conf. Raises InputError that lists the names."""
    if _is_slurm_conf(name):
        from pybatsched.machines.slurm_conf import machine_of_slurm, read_slurm_conf  # noqa: PLC0415  rarely needed

        return machine_of_slurm(read_slurm_conf(Path(name))), Variant()
    found = variant_of(name)
    if found is None:
        raise InputError(f"unknown machine {name!r:.80}{did_you_mean(name, _names(), f'; expected one of {_known()}')}")
    return found


def variant_of(name: str) -> tuple[Machine, Variant] | None:
    """Read a machine's name: ``curie``, ``curie-node-energy``, ``rackham@0.1`` (a tenth of it). Raises InputError."""
    whole, at, factor = name.partition("@")
    base = whole.removesuffix(_ENERGY)
    for machine in MACHINES:
        for unit in ("", *(unit.name for unit in machine.units)):
            if base == (f"{machine.name}-{unit}" if unit else machine.name):
                scale = _scale(name, factor) if at else 1.0
                return machine, Variant(unit, scale=scale, energy=whole.endswith(_ENERGY))
    return None


def _scale(name: str, factor: str) -> float:
    try:
        scale = float(factor)
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise InputError(f"{name:.80}: expected a number above 0 after the @, such as rackham@0.1")
    return scale


def machine_name(name: str) -> str:
    """Return what may be the name of a machine: a name, or that of a platform file without its directory and ending."""
    return Path(name).stem if name.endswith(".xml") else name


def unit_of(name: str) -> tuple[str, bool] | None:
    """Return the unit of the hosts of a platform, by its name or file name, and whether the machine's logs count in it.

    None if it is not the name of a machine.

    >>> unit_of("curie-node"), unit_of("out/intrepid-pset-energy.xml"), unit_of("curie"), unit_of("mine.xml")
    (('node', False), ('pset', False), ('core', True), None)
    """
    found = variant_of(machine_name(name))
    if found is None:
        return None
    machine, variant = found
    first = machine.units[0].name
    return variant.unit or first, variant.unit in {"", first}


def all_names() -> Iterator[str]:
    """Yield the names of all variants: each unit, and energy where the power is known."""
    for machine in MACHINES:
        for unit in machine.units:
            yield f"{machine.name}-{unit.name}"
            if machine.has_power:
                yield f"{machine.name}-{unit.name}{_ENERGY}"


def shipped() -> Iterator[str]:
    """Return the names of the files in ``platforms/``: all variants except energy of single cores."""
    return (name for name in all_names() if not name.endswith("-core" + _ENERGY))


def _names() -> list[str]:
    return [*(machine.name for machine in MACHINES), *all_names()]


def _known() -> str:
    return ", ".join(f"{m.name} ({', '.join(unit.name for unit in m.units)})" for m in MACHINES)
