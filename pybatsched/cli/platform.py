"""List, show, generate and check platforms."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.arguments import Command
from pybatsched.errors import InputError, quantity
from pybatsched.machines import names
from pybatsched.machines.catalogue import MACHINES
from pybatsched.machines.nodes import EXAMPLE, machine_of_nodes
from pybatsched.machines.write import NEW_SPELLING, OLD_SPELLING, Variant, platform_xml
from pybatsched.platform import check, describe
from pybatsched.platform.model import DEFAULT_MASTER
from pybatsched.platform.roles import read_roles
from pybatsched.runs.spec import MachineSpec
from pybatsched.text_table import aligned
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched platform list                                        the machines known by name
  pybatsched platform show intrepid                               hosts, speeds, classes, power
  pybatsched platform generate ricc --unit node --output ricc.xml
  pybatsched platform generate intrepid --unit pset --alpha 0.15 --output wide.xml
  pybatsched platform check my_platform.xml                       what Batsim would reject, with line numbers
  pybatsched platform check --for batsim5 my_platform.xml         what Batsim 5 would reject

A name works wherever a platform file does: pybatsched simulate -p ricc-node -w w.json --policy easy
"""

_GENERATE: Final = """\
examples:
  pybatsched platform generate ricc --unit node --output ricc.xml
  pybatsched platform generate intrepid --scale 0.1 --output small.xml       a tenth of the nodes, of each class
  pybatsched platform generate intrepid --unit pset --alpha 0.15 --output wide.xml
  pybatsched platform generate --nodes '4 x 16 cores 64 GB, 2 x 32 cores 128 GB 4 gpus:a100' --output nodes.xml
  pybatsched platform generate sx-aurora --energy --batsim 4.0 --output power.xml

By default the network takes no simulated time, neither for Batsim's messages nor for the communication of jobs. With
--network real, links have the machine's speed, and messages take time too.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `platform` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("list", "List the machines that are known by name.", "", _list_arguments, _list),
            Command("show", "Show a platform in a table.", "", _show_arguments, _show),
            Command("generate", "Write a machine as a platform file.", _GENERATE, _generate_arguments, _generate),
            Command("check", "Report what Batsim would reject in a platform file.", _CHECK, _check_arguments, _check),
        ),
    )


run = arguments.run_chosen


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the names, one for each variant")


def _list(args: argparse.Namespace) -> int:
    if args.quiet:
        print("\n".join(names.all_names()))
        return 0
    rows = [("name", "units and hosts", "cores", "energy", "")]
    for machine in MACHINES:
        units = ", ".join(f"{unit.name} {machine.n_hosts(unit):,}" for unit in machine.units)
        rows.append((machine.name, units, f"{machine.n_cores:,}", "yes" if machine.has_power else "-", machine.title))
    print("\n".join(aligned(rows, "llrll")))
    print(
        "\nNAME uses the first unit. NAME-UNIT and NAME-UNIT-energy select other variants, as in intrepid-node-energy."
    )
    return 0


def _roles(args: argparse.Namespace) -> dict[str, Any]:
    """Return the master and the roles of hosts."""
    return {"master": args.master_host or DEFAULT_MASTER, "roles": read_roles(args.roles or ())}


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", metavar="NAME|FILE", help="a machine, or a SimGrid platform file")
    arguments.add_settings(parser, MachineSpec, ["master_host", "roles"])


def _show(args: argparse.Namespace) -> int:
    source = names.find(args.platform)
    platform = source.read(**_roles(args))
    known = names.variant_of(args.platform) if source.path is None else None
    if known is not None:
        print(known[0].title)
    print("\n".join(map(_printable, describe.table(platform))))
    notes = [*platform.remarks, *(f"{text} (Batsim rejects this)" for text in platform.refused), platform.network_note]
    warning = check.many_hosts(platform)
    if warning and known is not None:
        coarser = [unit.name for unit in known[0].units if known[0].n_hosts(unit) <= check.MANY_HOSTS]
        warning += f": {', '.join(f'{known[0].name}-{name}' for name in coarser)}"
    for note in (*notes, warning):
        if note:
            arguments.say(note)
    return 0


def _printable(text: str) -> str:
    """Replace characters of a file that could control a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _generate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    machines = ", ".join(machine.name for machine in MACHINES)
    text = f"a machine: {machines}; or all, to write all included platforms into a directory"
    add("name", metavar="NAME", nargs="?", default="", help=text)
    add("--nodes", default="", metavar="GROUPS", help=f"instead of a machine: nodes, such as '{EXAMPLE}'")
    add("--unit", default="", metavar="UNIT", help="what a host is: core, node, … (default: the machine's first unit)")
    text = "add hosts with the highest ids until they are this share of all hosts, for a redirection group"
    add("--alpha", type=arguments.number, default=0.0, metavar="A", help=text)
    text = "multiply the number of nodes of each class by K; at least one of each"
    add("--scale", type=arguments.number, default=1.0, metavar="K", help=text)
    add("--energy", action="store_true", help="add the power of hosts, where it is known")
    text = (
        f"write power properties for this version: {', '.join(OLD_SPELLING)} or {', '.join(NEW_SPELLING)} "
        "(default: for both)"
    )
    add("--batsim", default="", metavar="VERSION", help=text)
    text = "free: communication takes no simulated time (default); real: the links of the machine"
    add("--network", choices=("free", "real"), default="free", help=text)
    add("--output", required=True, metavar="FILE", help="the file to write, - for standard output")


def _generate(args: argparse.Namespace) -> int:
    if args.name == "all":
        return _generate_all(args)
    if bool(args.name) == bool(args.nodes):
        raise InputError("platform generate: expected either the name of a machine or --nodes")
    machine, named = (machine_of_nodes(args.nodes), Variant()) if args.nodes else names.machine_of(args.name)
    if named.unit and args.unit not in {"", named.unit}:
        raise InputError(f"{args.name}: its unit is {named.unit}; expected no other --unit, found {args.unit}")
    variant = Variant(
        unit=args.unit or named.unit,
        alpha=args.alpha,
        scale=args.scale * named.scale,
        energy=args.energy or named.energy,
        batsim=_version(args.batsim),
        real_network=args.network == "real",
    )
    text = platform_xml(machine, variant)
    if args.output == "-":
        sys.stdout.write(text)
    else:
        write_text(args.output, [text])
    return 0


def _generate_all(args: argparse.Namespace) -> int:
    given = [name for name in ("unit", "alpha", "energy", "batsim") if getattr(args, name)]
    if given or args.scale != 1 or args.network != "free":
        raise InputError("generate all: expected no options but --output DIRECTORY")
    if args.output == "-":
        raise InputError("generate all: expected a directory as --output")
    folder = Path(args.output)
    for name in names.shipped():
        write_text(folder / f"{name}.xml", [platform_xml(*names.machine_of(name))])
    return 0


def _version(text: str) -> str:
    """Return the major and minor part of a version: 4.2 for 4.2.1, and the newest known one for 4.x."""
    major, _, minor = text.removeprefix("v").partition(".")
    if minor in {"", "x"}:
        return max((known for known in (*OLD_SPELLING, *NEW_SPELLING) if known.startswith(f"{major}.")), default=text)
    return ".".join(text.removeprefix("v").split(".")[:2])


_N_SHOWN: Final = 50
_CHECK: Final = """\
exit codes: 0 Batsim would accept it, with or without notes; 7 it would not; 2 the file cannot be opened
"""


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="SimGrid platform files, or names of machines")
    arguments.add_for_batsim(parser, "check for Batsim 4 on SimGrid 3 (default), or for Batsim 5 on SimGrid 4")
    energy = "check also what batsim -E needs (Batsim 5: --energy-host)"
    parser.add_argument("-E", "--energy", action="store_true", help=energy)
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what Batsim would reject")
    arguments.add_settings(parser, MachineSpec, ["master_host", "roles"])


def _check(args: argparse.Namespace) -> int:
    n_refused = 0
    for name in args.files:
        found = check.check(
            names.find(name, energy=args.energy).data(),
            name,
            **_roles(args),
            energy=args.energy,
            batsim5=args.batsim == "batsim5",
        )
        shown = [finding for finding in found if finding.is_refused or not args.quiet]
        for finding in shown[:_N_SHOWN]:
            print(f"{_printable(finding.text)} ({'rejected' if finding.is_refused else 'note'})")
        if len(shown) > _N_SHOWN:
            print(f"{name}: and {len(shown) - _N_SHOWN:,} more")
        refused = sum(finding.is_refused for finding in found)
        n_refused += refused
        if not args.quiet:
            batsim = "Batsim 5" if args.batsim == "batsim5" else "Batsim"
            errors = f"{quantity(refused, 'error')}, {batsim} rejects it"
            print(f"{name}: {errors if refused else f'{batsim} would accept it'}")
    return 7 if n_refused else 0
