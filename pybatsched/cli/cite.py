"""Print what to cite in BibTeX: pybatsched, and what runs used, such as logs, machines and policies."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from pybatsched.campaign import studies
from pybatsched.campaign.store import Store
from pybatsched.errors import BrokenPromiseError, InputError
from pybatsched.machines.names import machine_name, variant_of
from pybatsched.metrics.compare.comparison import read_summary
from pybatsched.policies import predictions, registry
from pybatsched.version import AUTHORS, TITLE, YEAR, __version__
from pybatsched.workload.origins import references_of

EPILOG: Final = """\
examples:
  pybatsched cite                             the entry of this version
  pybatsched cite out/easy out/conservative   and those of the logs, machines and policies of two runs
  pybatsched cite out/backfilling             the same for a campaign or a reproduced study

A run is the prefix of its files (the value of -e), a campaign is its directory. Lines that start with % say what an
entry is for, and for what no entry is known; BibTeX ignores them.
exit codes: 2 there is no such run, or an entry is not BibTeX; 7 the run is not finished
"""

BATSIM: Final = """\
@inproceedings{dutot2016batsim,
  author = {Dutot, Pierre-Fran{\\c{c}}ois and Mercier, Michael and Poquet, Millian and Richard, Olivier},
  title = {{Batsim}: a Realistic Language-Independent Resources and Jobs Management Systems Simulator},
  booktitle = {Job Scheduling Strategies for Parallel Processing (JSSPP 2016)},
  series = {Lecture Notes in Computer Science},
  volume = {10353},
  pages = {178--197},
  publisher = {Springer},
  year = {2017},
  doi = {10.1007/978-3-319-61756-5_10},
}"""
SIMGRID: Final = """\
@article{casanova2014simgrid,
  author = {Casanova, Henri and Giersch, Arnaud and Legrand, Arnaud and Quinson, Martin and Suter, Fr{\\'e}d{\\'e}ric},
  title = {Versatile, Scalable, and Accurate Simulation of Distributed Applications and Platforms},
  journal = {Journal of Parallel and Distributed Computing},
  volume = {74},
  number = {10},
  pages = {2899--2917},
  year = {2014},
  doi = {10.1016/j.jpdc.2014.06.008},
}"""
_ENTRY: Final = re.compile(r"@\w+\{[^\s,{}]+,.*\}", re.DOTALL)


def own_entry(version: str) -> str:
    """Return the entry of pybatsched itself."""
    return f"""\
@misc{{pybatsched,
  author = {{{{{AUTHORS}}}}},
  title = {{{{{TITLE}}}}},
  howpublished = {{Software, version {version}}},
  year = {{{YEAR}}},
}}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of `cite`."""
    parser.add_argument("runs", nargs="*", metavar="PREFIX|DIR", help="a finished run, or the directory of a campaign")


def run(args: argparse.Namespace) -> int:
    """Print the entries, each with what it is for."""
    cited = _Cited()
    for path in args.runs:
        if (Path(path) / "manifest.json").exists():
            cited.add_campaign(path)
        else:
            found = read_summary(path)
            if found.run_state.mark is not None:
                raise BrokenPromiseError(f"{path}: {found.run_state.notice}; expected a finished run")
            cited.add_run(path, found.about)
    print("\n\n".join(cited.parts()))
    return 0


class _UsedPolicy(msgspec.Struct):
    """The policy of a run; `references` are those of a policy in a file."""

    name: str
    options: dict[str, Any] = {}
    references: list[str] | None = None


class _Used(msgspec.Struct):
    """The members of a summary that say what a run used."""

    versions: dict[str, str] = {}
    clock: str = ""
    policy: _UsedPolicy | None = None
    origins: list[str] = []
    inputs: dict[str, list[dict[str, str]]] = {}


class _Cited:
    """The entries to print, each with what it is for. `versions` are those of pybatsched that ran."""

    def __init__(self) -> None:
        self.versions: dict[str, None] = {}
        self.uses: dict[str, dict[str, None]] = {}
        self.without: dict[str, None] = {}

    def parts(self) -> list[str]:
        """Return the entries as text, that of pybatsched first."""
        parts = [own_entry(", ".join(self.versions or [__version__]))]
        parts += [f"% {', '.join(uses)}\n{entry}" for entry, uses in self.uses.items()]
        return parts + ([f"% no entry is known for: {', '.join(self.without)}"] if self.without else [])

    def add(self, what: str, entries: Iterable[str]) -> None:
        """Add the entries of a policy, log or study. Raises InputError for an entry that is not BibTeX."""
        what = " ".join(what.split())  # one line, which BibTeX ignores
        entries = [entry.strip() for entry in entries]
        for entry in entries:
            if not _ENTRY.fullmatch(entry):
                expected = "an entry in BibTeX such as @article{key, title = {...}}"
                raise InputError(f"{what}: references: expected {expected}, found {entry!r:.60}")
            self.uses.setdefault(entry, {})[what] = None
        if not entries:
            self.without[what] = None

    def add_run(self, where: str, summary: Any) -> None:
        """Add what a run used, by its summary. No code of a file is run. Raises InputError."""
        try:
            used = msgspec.convert(summary, _Used)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: expected the summary of a run; {error}") from None
        if version := used.versions.get("pybatsched"):
            self.versions[version] = None
        if version := used.versions.get("batsim"):
            self.add(f"Batsim {version}", [BATSIM])
            self.add("the models of Batsim", [SIMGRID])
        elif version := used.versions.get("behaves_as_batsim"):
            self.add(f"simulated: Batsim {version}", [BATSIM])
        if used.clock == "simgrid":
            self.add("the model of clock and network", [SIMGRID])
        if used.policy is not None:
            name, own = used.policy.name, used.policy.references
            self.add(f"policy {name}", _references_of(name) if own is None else own)
            for predictor, entries in predictions.references_of(str(used.policy.options.get("predict"))).items():
                self.add(f"predictor {predictor}", entries)
        for platform in used.inputs.get("platform", ()):
            name = platform.get("file", "")
            if found := variant_of(machine_name(name)):
                self.add(f"machine {found[0].name}", _entries_of(found[0].references))
        files = [file.get("file", "") for file in used.inputs.get("workloads", ())]
        for origin in used.origins or files:  # versions before 1.0 kept known origins only
            self.add(f"workload {origin}", references_of(origin))

    def add_campaign(self, folder: str) -> None:
        """Add what the cells of a campaign used, and the study that it belongs to."""
        store = Store(folder)
        manifest = store.manifest()
        words = str(manifest.get("command", "")).split()
        if words[1:2] == ["reproduce"] and (name := "".join(words[2:3])) in studies.names():
            self.add(f"study {name}", _entries_of(studies.read_study(name).references))
        for address, result in store.results(point["address"] for point in manifest["points"]).items():
            self.add_run(f"{folder}/cells/{address}.json", result.get("cites", {}))


def _entries_of(references: Iterable[str]) -> list[str]:
    """Return entries: those that are given, and those of policies and logs that are named."""
    return [
        entry
        for one in references
        for entry in ([one] if one.startswith("@") else _references_of(one) or references_of(one))
    ]


def _references_of(policy: str) -> tuple[str, ...]:
    """Return what an installed policy cites; nothing for a file, or a policy that is not installed."""
    return registry.find(policy).cls.references if policy in registry.available() else ()
