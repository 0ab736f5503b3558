"""What a processor is: sizes of logs are cores, while hosts of a platform may be nodes, or psets."""

from __future__ import annotations

from typing import NamedTuple

from pybatsched.cli import arguments
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.platform.model import Platform
from pybatsched.platform.sizes import host_size
from pybatsched.workload.host_sizes import UNITS, in_hosts
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report


class Sizing(NamedTuple):
    """How sizes in cores become sizes in hosts. If it is not `asked` for, it is by the platform's name, for logs."""

    unit: str
    n_cores: int
    n_hosts: int
    n_cores_in_all: int
    asked: bool

    def applied(self, workload: Workload, report: Report | None = None) -> tuple[Workload, Report]:
        """Give a workload with sizes in hosts. Its machine is the platform, unless it has more cores than that."""
        n_procs = None if workload.n_procs > self.n_cores_in_all else -(-workload.n_procs // self.n_cores)
        n_procs = None if n_procs is None else min(n_procs, self.n_hosts)
        return in_hosts(workload, self.unit, self.n_cores, report, n_procs)


def add_units(parser: arguments.Group) -> None:
    """Describe the option for the unit of sizes."""
    text = (
        "what a host of the platform is: sizes in cores become sizes in hosts, rounded up (core: they stay as they "
        "are; default: as the platform's name says, for logs)"
    )
    parser.add_argument("--units", choices=UNITS, help=text)


def unit_by_name(name: str | None) -> str | None:
    """Tell what sizes in cores become on a platform of this name if the user says nothing; None if they stay."""
    known = names.unit_of(name) if name is not None else None
    return None if known is None or known[1] else known[0]


def sizing(unit: str | None, platform: Platform, name: str | None) -> Sizing | None:
    """Say how sizes in cores become sizes in hosts of a platform of this name; None if they stay as they are.

    `unit` is what the user said, None if nothing: then it is that of a machine by name, if its logs count in another.
    Raises InputError for a unit that the hosts are not.
    """
    known = names.unit_of(name) if name is not None else None
    by_name = unit_by_name(name)
    if unit == "core" or (unit is None and by_name is None):
        return None
    if unit is not None and known is not None and known[0] != unit:
        raise InputError(f"--units {unit}: expected a platform whose hosts are a {unit} each, {name} has a {known[0]}")
    size = host_size(platform)
    if unit is not None and size.n_cores == 1:
        raise InputError(
            f"--units {unit}: expected a platform whose hosts tell their cores (property cores), found one core each "
            f"in {platform.source}"
        )
    return Sizing(unit or by_name or "", *size, asked=unit is not None)
