"""The cases of peers.py: one workload in the formats of all programs, and the commands that run them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pybatsched.workload import Workload
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate

BUILD = Path(__file__).parents[1] / "build"
#: How long a scheduler with such an option waits for Batsim.
PATIENCE_S = 1800.0
#: The suffix of the name of a repeated case.
AGAIN = ", once more"

_PLATFORM = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="site" routing="Full">
  <cluster id="nodes" prefix="node" suffix="" radical="0-{last}" speed="1Gf" {links}>{power}</cluster>
  <cluster id="front" prefix="boss" suffix="" radical="0-0" speed="1Gf" bw="1e300Bps" lat="0">
    <prop id="role" value="master"/>{power}
  </cluster>
  <link id="trunk" bandwidth="1e300Bps" latency="0"/>
  <zoneRoute src="nodes" dst="front" gw_src="nodenodes_router" gw_dst="bossfront_router">
    <link_ctn id="trunk"/>
  </zoneRoute>
 </zone>
</platform>
"""
#: Bytes per second that a communicating job sends over the backbone if it runs at full speed, and those of the backbone
#: for each processor.
_SENT, _BACKBONE_SHARE = 20e6, 4e6


def platform_xml(n_procs: int, properties: str = "") -> str:
    """Return a platform of equal processors for any Batsim; all hosts have these properties."""
    return _PLATFORM.format(last=n_procs - 1, links='bw="1e300Bps" lat="0"', power=properties)


# --- the input in all formats -----------------------------------------------------------------------------------------


class Input(NamedTuple):
    """A directory with one workload in the formats of all programs."""

    directory: Path
    submitted: Mapping[str, float]  # the submission time of each job

    @property
    def platform(self) -> str:
        """The machine, for SimGrid."""
        return str(self.directory / "platform.xml")

    @property
    def workload(self) -> str:
        """The jobs, for Batsim."""
        return str(self.directory / "workload.json")

    @property
    def log(self) -> str:
        """The jobs in SWF."""
        return str(self.directory / "log.swf")


def random_workload(n_jobs: int, n_procs: int, load: float, largest: int | None = None) -> Workload:
    """Return random jobs with times in whole seconds and walltimes of twice the run times.

    Jobs need at most `largest` processors.

    AccaSim supports only whole seconds, and SimGrid's clock adds them without rounding. All programs plan with the
    walltimes, as there are no other estimates.
    """
    largest = n_procs if largest is None else largest
    workload = generate(Recipe("poisson", largest, seed=1, n_jobs=n_jobs, load=load))
    workload.n_procs = n_procs
    profiles = {}
    for job in workload.jobs:
        run_s = max(1, round(workload.profiles[job["profile"]]["delay"]))
        job |= {"subtime": round(job["subtime"] * largest / n_procs), "profile": str(run_s), "walltime": 2 * run_s}
        del job["estimate"]
        profiles[str(run_s)] = {"type": "delay", "delay": run_s}
    workload.profiles = profiles
    return workload


def let_communicate(workload: Workload) -> None:
    """Let all jobs compute for their run time and send bytes over the backbone meanwhile, in all pairs of processors.

    Walltimes are 20 times the run times, because jobs that share the backbone take longer.
    """
    profiles = {}
    for job in workload.jobs:
        run_s, n = workload.profiles[job["profile"]]["delay"], job["res"]
        job |= {"profile": f"{run_s}x{n}", "walltime": 20 * run_s}
        com = run_s * _SENT / (n * (n - 1)) if n > 1 else 0
        profiles[job["profile"]] = {"type": "parallel_homogeneous", "cpu": run_s * 1e9, "com": com}
    workload.profiles = profiles


def write_communicating(workload: Workload, directory: Path) -> Input:
    """Write a workload whose jobs communicate, and a cluster with a backbone."""
    directory.mkdir(parents=True)
    made = Input(directory, {str(job["id"]): job["subtime"] for job in workload.jobs})
    n_procs = workload.n_procs
    links = f'bw="125MBps" lat="50us" bb_bw="{n_procs * _BACKBONE_SHARE:.0f}Bps" bb_lat="20us"'
    text = _PLATFORM.format(last=n_procs - 1, links=links, power="")
    Path(made.platform).write_text(text, encoding="utf-8")
    batsim4.write(workload, made.workload)
    return made


def write_input(workload: Workload, directory: Path) -> Input:
    """Write a workload as a Batsim file and as a log, and its machine for Batsim and for AccaSim."""
    directory.mkdir(parents=True)
    made = Input(directory, {str(job["id"]): job["subtime"] for job in workload.jobs})
    n_procs = workload.n_procs
    Path(made.platform).write_text(platform_xml(n_procs), encoding="utf-8")
    batsim4.write(workload, made.workload)
    with Path(made.log).open("w", encoding="utf-8") as log:
        log.write(f"; MaxProcs: {n_procs}\n")
        for job in workload.jobs:
            run_s, n = workload.profiles[job["profile"]]["delay"], job["res"]
            log.write(f"{job['id']} {job['subtime']} -1 {run_s} {n} -1 -1 {n} {job['walltime']} -1 1 1 1 1 1 1 -1 -1\n")
    for n_cores in _cores_of_nodes(n_procs):
        system = {"groups": {"node": {"core": n_cores}}, "resources": {"node": n_procs // n_cores}}
        system["equivalence"] = {"processor": {"core": 1}}
        (directory / f"cores-{n_cores}.config").write_text(json.dumps(system | {"start_time": 0}))
    return made


def _cores_of_nodes(n_procs: int) -> list[int]:
    """Return the node sizes for AccaSim: one processor, as for the other programs, and 16."""
    return [1, 16] if n_procs % 16 == 0 else [1]


# --- the cases --------------------------------------------------------------------------------------------------------


class RunPaths(NamedTuple):
    """The input, the output directory and the port of a run."""

    files: Input
    out: Path
    port: int

    @property
    def endpoint(self) -> str:
        """The endpoint of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"


Command = Callable[[RunPaths], list[str]]


class Case(NamedTuple):
    """One line of the table: a program alone, or a scheduler with Batsim (`wired`).

    Its schedule is compared with that of the pybatsched policy `policy`; a case of pybatsched (`ours`) must have the
    same schedule. `missing` names a missing program.
    """

    name: str
    command: Command
    policy: str
    wired: bool = False
    ours: bool = False
    missing: str = ""

    @property
    def communicates(self) -> bool:
        """Whether its simulator has a network, and its scheduler needs no other fields of jobs."""
        return (self.wired or self.ours) and "pybatsim," not in self.name

    @property
    def talk(self) -> str:
        """A key that is equal for cases with the same messages between scheduler and Batsim."""
        return self.policy if self.ours else self.name


def batsim(place: RunPaths, verbosity: str = "quiet") -> list[str]:
    """Return the command of a Batsim that writes only its table of jobs and a summary."""
    command = ["batsim", "-p", place.files.platform, "-w", place.files.workload, "-e", str(place.out / "run")]
    command += ["-s", place.endpoint, "-v", verbosity]
    return [*command, "--disable-schedule-tracing", "--disable-machine-state-tracing"]


def _batsched(variant: str) -> Command:
    return lambda place: ["batsched", "-v", variant, "-d", "0", "-s", place.endpoint, "--verbosity=silent"]


def _pybatsim(scheduler: str) -> Command:
    program = str(BUILD / "foreign" / "bin" / "pybatsim")
    patience_ms = str(round(PATIENCE_S * 1000))
    return lambda place: [program, scheduler, "-s", place.endpoint, "-v", "error", "-t", patience_ms]


def _served(python: str, policy: str) -> Command:
    return lambda place: [python, "-m", "pybatsched", "--policy", policy, "--endpoint", place.endpoint]


def _embedded(python: str, policy: str) -> Command:
    def command_for(place: RunPaths) -> list[str]:
        command = [python, "-m", "pybatsched", "simulate", "-p", place.files.platform, "-w", place.files.workload]
        command += ["--policy", policy, "-e", str(place.out / "run"), "-q"]
        return [*command, "--disable-machine-state-tracing"]

    return command_for


def _accasim(n_cores: int) -> Command:
    command = [str(BUILD / "accasim" / "bin" / "python"), str(Path(__file__).with_name("run_accasim.py"))]
    return lambda place: [
        *command,
        place.files.log,
        str(place.files.directory / f"cores-{n_cores}.config"),
        str(place.out),
    ]


def _unless(is_there: object, reason: str) -> str:
    return "" if is_there else reason


def all_cases(n_procs: int) -> Iterator[Case]:
    """Yield all cases, including those whose programs are missing."""
    no_batsim = _unless(shutil.which("batsim"), "no batsim on the PATH")
    no_batsched = no_batsim or _unless(shutil.which("batsched"), "no batsched on the PATH")
    for variant in ("easy_bf_fast", "easy_bf", "conservative_bf"):
        policy = variant.partition("_")[0]
        yield Case(f"Batsim + batsched, {variant}", _batsched(variant), policy, wired=True, missing=no_batsched)
    is_ready = (BUILD / "foreign" / "ready").exists()
    no_pybatsim = no_batsim or _unless(is_ready, "no build/foreign; `make build/foreign/ready` makes it")
    yield Case("Batsim + pybatsim, easyBackfill", _pybatsim("easyBackfill"), "easy", wired=True, missing=no_pybatsim)
    compiled = BUILD / "fresh" / "bin" / "python"
    builds = (
        ("pure Python", sys.executable, ""),
        ("compiled", str(compiled), _unless(compiled.exists(), "no build/fresh; `make wheel` makes it")),
    )
    ours = [(policy, *build) for policy in ("easy", "conservative") for build in builds]
    for policy, build, python, missing in ours:
        case = Case(f"Batsim + pybatsched, {policy}, {build}", _served(python, policy), policy, wired=True, ours=True)
        yield from _twice(case._replace(missing=no_batsim or missing))
    for policy, build, python, missing in ours:
        case = Case(f"embedded simulator, {policy}, {build}", _embedded(python, policy), policy, ours=True)
        yield from _twice(case._replace(missing=missing))
    no_accasim = _unless(
        (BUILD / "accasim" / "ready").exists(), "no build/accasim; `make build/accasim/ready` makes it"
    )
    for n_cores in _cores_of_nodes(n_procs):
        nodes = f"{n_procs // n_cores:,} nodes of {n_cores}"
        yield Case(f"AccaSim, EASY and first fit, {nodes}", _accasim(n_cores), "easy", missing=no_accasim)


def _twice(case: Case) -> Iterator[Case]:
    """Yield a case, and repeat it if it is one of the two that measure the noise."""
    yield case
    if case.policy == "easy" and case.name.endswith("pure Python"):
        yield case._replace(name=case.name + AGAIN)
