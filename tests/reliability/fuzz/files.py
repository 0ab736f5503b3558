"""Mutated files, for every reader that there is, as the commands call them.

Samples are small: generated, or from examples, the documentation, the tests' fixtures and the start of real logs.
A case is the name of a reading and the content of a file. A command is read by its own parser and run in this process;
every fortieth case goes through `pybatsched.cli.main` as a whole, and what counts there is the exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import io
import itertools
import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgpack
import polars as pl
from support import campaigns, fingerprints, fuzzer, networks, platforms
from support.logs import SACCT_COLUMNS, line, sacct_line
from support.places import ROOT, TRACES
from support.process import run_cli
from support.tables import FRAMES, HEADER, MAPPING, PHILLY, ROWS, TEXTS, mapping, text_table

from pybatsched import cli
from pybatsched.campaign.spec import read_spec
from pybatsched.metrics.saved_runs import read_latest
from pybatsched.runs.policies import PolicySpec
from pybatsched.session.explain import job_histories
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.session import Session
from pybatsched.simulator import external_events
from pybatsched.testing import FakeBatsim, plan_for
from pybatsched.workload.formats import batsim4, batsim5
from pybatsched.workload.formats.files import SETS
from pybatsched.workload.model import Workload
from reliability.cases import Dice
from reliability.fuzz.mutations import BYTES, HALVES, JSON, LINES, TEXT, Mutator, change_value, mutated
from reliability.fuzz.targets import NotDocumentedError, Target, scratch

_DOCUMENTED: Final = frozenset({0, 2, 3, 5, 7})
_WHOLE: Final = b"main "  # before the name of a reading that goes through all of `cli.main`

#: Something that reads a file: arguments of a command, or a function of the path.
Reading = Sequence[str] | Callable[[Path], object]


# --- samples ---


def _docs(kind: str) -> list[str]:
    """Return the code of a kind in the documentation."""
    pages = (path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    return [block for page in pages for block in re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)]


def _heads(*names: str) -> list[bytes]:
    """Return the first lines of real logs that are available."""
    found = []
    for path in (TRACES / name for name in names if (TRACES / name).exists()):
        with gzip.open(path) as file:
            found.append(b"".join(itertools.islice(file, 40)))
    return found


def swf() -> list[bytes]:
    """Logs of a dozen lines, with all that a log may leave out."""
    head = "; Version: 2.2\n; Computer: none\n; MaxNodes: 4\n; MaxProcs: 8\n; UnixStartTime: 1000000000\n"
    head += "; TimeZoneString: Europe/Paris\n; Queue: 1 fast\n; Partition: 1 all\n; Note: one\n"
    lines = [
        line(n, 10 * n, n % 3, 60 + n, 1 + n % 8, requested=4, requested_s=100, user=n % 3, queue=1, partition=1)
        for n in range(1, 10)
    ]
    lines += [line(10, 95, 0, 0, 0), line(11, 96, -1, -1, -1, status=5, requested_kb=1000), line(12, 97, preceding=3)]
    made = (head + "\n".join(lines) + "\n").encode()
    names = "; 18: used_GPUs (of all nodes)\n; 19: soft_walltime\n; 20: required_properties\n"
    wide = (head + names + "".join(f"{one} {n} 60 all\n" for n, one in enumerate(lines))).encode()
    return [
        made,
        made,
        wide,
        *_heads("CTC-SP2-1996-3.1-cln.swf.gz", "CEA-Curie-2011-2.1-cln.swf.gz", "SX-ACE-2019.swf.gz"),
    ]


def slurm() -> list[bytes]:
    """Logs of Slurm, with steps, arrays, attempts and all kinds of values."""
    records = [
        sacct_line("10", 0, 0, 100, 4, AllocTRES="billing=4,cpu=4,mem=8G,node=2,gres/gpu:a100=2", ReqMem="2Gc"),
        sacct_line("10.batch", 0, 0, 100, 4),
        sacct_line("11_1", 10, 5, 60, 2, Submit="2024-01-01T00:00:10", Timelimit="1-12:00:00"),
        sacct_line("11_2", 10, 5, 60, 2, State="CANCELLED by 7", Timelimit="UNLIMITED"),
        sacct_line("11_[3-9%2]", 10, State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        sacct_line("12+0", 30, 0, 600, 8, State="TIMEOUT", Timelimit="10"),
        sacct_line("13", 40, 0, 30, 1, State="NODE_FAIL"),
        sacct_line("13", 90, 9, 30, 1, SubmitLine="sbatch --wrap\nsleep 1"),
        sacct_line("14", 99, State="RUNNING", End="Unknown"),
    ]
    piped = "\n".join(["|".join(SACCT_COLUMNS), *records, ""]).encode()
    head = "JobID,JobName,AllocTRES,Submit,Start,End,ElapsedRaw,TimelimitRaw,State,Dependency,ConsumedEnergy,MaxRSS\n"
    quoted = head + (
        '1,"a, b","cpu=4,node=1,gres/gpu=2",1704067200,1704067201,1704067261,60,10,COMPLETED,,1.5K,\n'
        '1.0,"a\nb",,1704067200,1704067201,1704067261,60,,COMPLETED,,1.5K,3G\n'
        '2,c,"cpu=2,node=1",1704067210,1704067301,1704067361,60,Partition_Limit,FAILED,afterok:1,,\n'
    )
    heads = _heads("today/Cirrus-2024-Q1.sacct.csv.gz", "today/NREL-Eagle-sample.csv.gz")
    return [piped, piped, quoted.encode(), *heads]


def tables() -> list[bytes]:
    """Tables as text, of the public sets and of another kind."""
    return [text.encode() for text in ("\n".join([HEADER, *ROWS, ""]), *TEXTS.values())]


def parquet_tables() -> list[bytes]:
    """Tables as Parquet."""
    made = [io.BytesIO() for _ in FRAMES]
    for content, columns in zip(made, FRAMES.values(), strict=True):
        pl.DataFrame(columns).write_parquet(content)
    return [content.getvalue() for content in made]


def mappings() -> list[bytes]:
    """Mappings of tables."""
    folder = resources.files("pybatsched.workload.logs").joinpath("tables")
    texts = [MAPPING, *(block for block in _docs("toml") if "[columns]" in block)]
    return [*(text.encode() for text in texts), *(folder.joinpath(f"{name}.toml").read_bytes() for name in SETS)]


def _random(seed: int, n_jobs: int = 8) -> Workload:
    content = fuzzer.random_workload(seed, n_jobs, 8)
    return Workload(content["jobs"], content["profiles"], 8, "w.json")


_FIELDS: Final[dict[str, Any]] = {
    "estimate": 5.0, "user": "eve", "queue": 1, "max_stay": 500, "urgent": True, "memory_gb": 4, "input_file": "f",
    "input_size_gb": 2, "moldable": {"fraction": 0.9, "limit": 96}, "cluster": "a", "evaluated": True,
    "depends_on": ["0"],
}  # fmt: skip


def workload4() -> list[bytes]:
    """Workloads of Batsim 4: all kinds of profiles, and fields of users."""
    found = [batsim4.text_of(_random(seed)).encode() for seed in range(3)]
    rich = json.loads(found[0])
    rich["jobs"] = [{**job, **_FIELDS} for job in rich["jobs"]]
    others: dict[str, Any] = {
        "arrays": {"type": "parallel", "cpu": [1e9, 2e9], "com": [0, 0, 0, 0]},
        "send": {"type": "send", "msg": {"a": 1}, "sleeptime": 0.5},
        "recv": {"type": "recv", "regex": "a", "on_success": "d1", "on_failure": "d2", "on_timeout": "d1"},
        "smpi": {"type": "smpi", "trace": "traces.txt"},
        "pfs": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1e6, "bytes_to_write": 1e6, "storage": "pfs"},
        "staging": {"type": "data_staging", "nb_bytes": 1e6, "from": "a", "to": "b"},
    }
    rich["profiles"] |= others
    used = [{"id": name, "subtime": 9, "res": 2, "profile": name} for name in others]
    return [*found, json.dumps(rich | {"jobs": [*rich["jobs"], *used]}, indent=1).encode()]


def workload5() -> list[bytes]:
    """The same in Batsim 5's format."""
    found = []
    for seed in range(4):
        one = _random(seed)
        kept = {name for name, profile in one.profiles.items() if "total" not in profile["type"]}
        one.jobs = [job | (_FIELDS if seed == 0 else {}) for job in one.jobs if job["profile"] in kept]
        one.profiles = {name: profile for name, profile in one.profiles.items() if name in kept}
        found.append(batsim4.text_of(batsim5.to_batsim5(one)).encode())
    return [*found, (ROOT / "examples" / "workload.batsim5.json").read_bytes()[:4000]]


def simulated() -> list[bytes]:
    """Workloads whose simulation is short for any numbers: no profile repeats another."""
    found = []
    for seed in range(4):
        one = fingerprints.drawn(random.Random(f"0 simulated {seed}"))
        one.profiles["ph"] = {"type": "parallel_homogeneous", "cpu": 8e9, "com": 0}
        one.jobs[0]["profile"] = "ph"
        found.append(json.dumps({"nb_res": 8, "jobs": one.jobs[:8], "profiles": one.profiles}).encode())
    return found


PLATFORM: Final = (
    platforms.HEAD
    + """ <config id="General"><prop id="network/model" value="CM02"/></config>
 <zone id="site" routing="Full"><prop id="site" value="R&amp;D"/>
  <cluster id="nodes" prefix="n" suffix=".x" radical="0-3,7" speed="1Gf,2f" core="2" bw="1GBps" lat="1us">
   <prop id="cores" value="2"/><prop id="watt_per_state" value="95.0:98.0:200.0, 93.0:95.0:170.0"/>
   <prop id="watt_off" value="10"/><prop id="sleep_pstates" value="1:1:1"/><prop id="memory_gb" value="128"/></cluster>
  <zone id="front" routing="Full"><host id="master_host" speed="1Gf" coordinates="0 0 0">
   <prop id="wattage_per_state" value="100:200"/></host></zone>
  <host id="alone" speed="98.095Mf" pstate="0"><prop id="role" value="storage"/>
   <disk id="d" read_bw="1" write_bw="1"/></host>
  <link id="l" bandwidth="125MBps" latency="50us" sharing_policy="SHARED"/><router id="r"/>
  <route src="alone" dst="r"><link_ctn id="l"/></route>
  <zoneRoute src="nodes" dst="front" gw_src="nnodes_router.x" gw_dst="master_host"><link_ctn id="l"/></zoneRoute>
 </zone>
</platform>
"""
)


def platform() -> list[bytes]:
    """Platform files: one of everything, all networks, those of the recordings, and those that Batsim rejects."""
    recorded = sorted((ROOT / "tests" / "conformance" / "recordings").glob("*/*/platform.xml"))
    small = [content for path in recorded if len(content := path.read_bytes()) < 8000]
    defects = [defect.text for defect in (platforms.DEFECTS | platforms.ONLY_BATSIM_4).values()]
    networks_made = [networks.random_platform(random.Random(kind), kind) for kind in networks.KINDS]
    texts = [*[PLATFORM] * 20, *platforms.HARMLESS.values(), *defects, *networks_made]
    return [*(text.encode() for text in texts), *dict.fromkeys(small)]


def events() -> list[bytes]:
    """External events of both Batsims."""
    listed: list[dict[str, Any]] = [
        {"type": "machine_unavailable", "timestamp": 5, "resources": "0-2 4"},
        {"type": "machine_available", "timestamp": 10.5, "resources": "0-2"},
        {"type": "machine_available", "timestamp": 11, "resources": "4"},
        {"type": "alarm", "timestamp": 12, "what": {"a": [1, 2]}},
    ]
    four = "".join(f"{json.dumps(one)}\n" for one in listed)
    five = "".join(f"{json.dumps(external_events.to_batsim5(one))}\n" for one in listed)
    return [four.encode(), five.encode()]


@functools.cache
def journals() -> list[bytes]:
    """Journals of short runs, of either Batsim."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (policy, batsim) in enumerate((("easy", 4), ("conservative", 5), ("ujfb", 4), ("ujfb", 5))):
            dice = random.Random(f"0 {policy} {number}")
            workload, n_procs, hosts, options = fingerprints.setting(policy, dice)
            workload.jobs = workload.jobs[:6]
            journal = JournalWriter(f"{folder}/run.pbj")
            session = Session(plan_for(policy, **options), journal=journal)
            FakeBatsim(workload, n_procs, {"dynamic-jobs-enabled": True}, hosts=hosts, batsim=batsim).run(
                session.handle
            )
            session.close("ended")
            found.append(Path(f"{folder}/run.pbj").read_bytes())
    return found


def mutated_journal(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Mutate bytes of a journal, or its records, or a message within one."""
    if dice.part() < 0.3:
        return mutated(dice, raw, other, BYTES)
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(raw)
    records = list(unpacker)
    if dice.part() < 0.5:
        change_value(dice, records)
    else:
        spoken = [one for one in records if "bytes" in one]
        one, another = dice.choice(spoken), dice.choice(spoken)
        one["bytes"] = mutated(dice, one["bytes"], another["bytes"])
    return b"".join(msgpack.packb(record, use_bin_type=True) for record in records)


def campaign_files() -> list[bytes]:
    """Campaign files: the example, alone and with each table of the documentation, and those of published studies."""
    example = (ROOT / "examples" / "campaign.toml").read_text()
    head = 'repeats = 2\nkeep = "jobs"\ntau_s = 10.0\neach = ["user"]\nbaseline = "fcfs"\n'
    tables = """[[policy]]\nname = "redirection"\n[[policy]]\nname = "ujfb"\noptions = { swap = "fixed", swap_out = 1 }
[[policy]]\nname = "conservative"\nlabel = "cbf"\nplatforms = ["own"]\noptions = { compression = [true, false] }
[[workload]]\nname = "poisson"\ngenerate = { model = "poisson", procs = 64, days = 2.5, load = 0.8 }
"""
    blocks = [block for block in _docs("toml") if re.match(r"\[\[(workload|platform|chart)|\[tune", block)]
    whole = [block for block in _docs("toml") if block.startswith("name = ")]
    studies = [path.read_text() for path in sorted((ROOT / "studies").rglob("quick.toml"))]
    texts = [example, *(f"{head}{example}{tables}{block}" for block in ("", *blocks)), *whole, *studies]
    return [text.encode() for text in texts]


def read_campaign(path: Path) -> None:
    """Read a campaign file, and all settings of its policies."""
    for policy in read_spec(path).policy:
        list(policy.settings())


def configs() -> list[bytes]:
    """Options of policies."""
    return [
        b'[policy.easy]\norder = "sjf"\nassume_walltime = 100\n[policy.ujfb]\nswap = "fixed"\nswap_out = [1, 2.5]\n',
        b"[policy.easy]\nassume_walltime = 1e3\n",
    ]


@functools.cache
def run_files() -> dict[str, bytes]:
    """Simulate a few jobs with energy, and give all files of the run by their suffixes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = fingerprints.drawn(random.Random("0 run 1"))
        for number, job in enumerate(workload.jobs):
            job["user"] = f"u{number % 3}"
        content = {"nb_res": 4, "jobs": workload.jobs[:8], "profiles": workload.profiles}
        (folder / "w.json").write_text(json.dumps(content))
        energy = ROOT / "tests" / "conformance" / "recordings" / "v4" / "energy" / "platform.xml"
        args = ("-p", str(energy), "-w", "w.json", "--policy", "ujfb", "-E", "-e", "run", "--quiet")
        done = run_cli("simulate", *args, cwd=folder)
        if done.returncode:
            raise ValueError(done.stderr)
        return {path.name.removeprefix("run"): path.read_bytes() for path in sorted(folder.glob("run_*"))}


def two_runs(folder: Path) -> None:
    """Write the files of a run twice, by the prefixes `run` and `good`."""
    for suffix, content in run_files().items():
        for prefix in ("run", "good"):
            (folder / f"{prefix}{suffix}").write_bytes(content)


def read_columns(path: Path) -> None:
    """Read a run by columns, as `report` does."""
    run = read_latest(f"{path.parent}/run", all_fields=False)
    list(run.jobs.frame)
    run.utilisation()


CELL: Final = f"cells/{0:064x}.json"


@functools.cache
def campaign_results() -> Mapping[str, bytes]:
    """Return the files of a campaign that was run, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = campaigns.scanned(Path(name) / "campaign", n_weeks=1)
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.json"))}


def campaign_folder(folder: Path) -> None:
    """Write the directory of a campaign that was run."""
    for name, content in campaign_results().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


# --- readings ---


@functools.cache
def _parser(command: str) -> argparse.ArgumentParser:
    return cli.build_parser([command])


def command(args: Sequence[str]) -> None:
    """Run a command to its end, without converting errors to exit codes."""
    try:
        options = _parser(args[0]).parse_args(args)
    except SystemExit as stop:
        raise NotDocumentedError(f"{args}: the command line was refused") from stop
    options.for_batsim = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        options.run(options)


def _files(
    name: str,
    seeds: Callable[[], Sequence[bytes]],
    readings: dict[str, Reading],
    mutators: Sequence[Mutator],
    *,
    file: str = "",
    beside: Callable[[Path], object] | None = None,
    packs: bool = False,
    one: Callable[[Dice, bytes, bytes], bytes] | None = None,
) -> Target:
    """Describe a kind of file by samples, its readers (FILE is its name), and how it is mutated."""
    known = functools.cache(seeds)
    names = [text.encode() for text in readings]

    @functools.cache
    def path() -> Path:
        folder = scratch() / name
        folder.mkdir()
        if beside is not None:
            beside(folder)
        return folder / (file or name)

    def pieces(dice: Dice) -> tuple[Sequence[bytes], Iterator[bytes]]:
        samples = known()
        raw, other = dice.choice(samples), dice.choice(samples)
        reading = dice.choice(names)
        if dice.part() < 0.025 and not callable(readings[reading.decode()]):
            reading = _WHOLE + reading
        content = one(dice, raw, other) if one is not None else mutated(dice, raw, other, mutators)
        if packs and dice.part() < 0.1:
            content = gzip.compress(content, 1, mtime=0)
            if dice.part() < 0.7:
                content = mutated(dice, content, raw, BYTES)
        return (reading,), iter([content])

    def feed(given: Iterable[bytes]) -> None:
        coming = iter(given)
        reading, content = next(coming), next(coming)
        reader = readings[reading.removeprefix(_WHOLE).decode()]
        shutil.rmtree(scratch() / "out", ignore_errors=True)  # of the last case
        path().write_bytes(content)
        if callable(reader):
            reader(path())
            return
        args = [
            arg.replace("FILE", str(path())).replace("HERE", f"{scratch()}/{name}").replace("OUT", f"{scratch()}/out")
            for arg in reader
        ]
        if not reading.startswith(_WHOLE):
            command(args)
            return
        done = run_cli(*args)
        if done.returncode not in _DOCUMENTED or "Traceback" in done.stderr:
            raise NotDocumentedError(f"exit code {done.returncode}: {done.stderr[-2000:]}")

    return Target(name, pieces, feed)


_WORKLOADS: Final[dict[str, Reading]] = {
    "lint": ("workload", "lint", "FILE"),
    "lint-json": ("workload", "lint", "FILE", "--procs", "8", "--json"),
    "stats": ("workload", "stats", "FILE"),
    "stats-json": ("workload", "stats", "FILE", "--json"),
    "convert": ("workload", "convert", "FILE", "OUT/w.json"),
    "exact": ("workload", "convert", "FILE", "OUT/w.json", "--walltimes", "exact", "--for", "batsim5"),
    "deadlines": ("workload", "inject", "FILE", "deadlines", "--every", "3", "--least", "24h", "--output", "OUT/w"),
}
_LOGS: Final[dict[str, Reading]] = {
    **_WORKLOADS,
    "lenient": ("workload", "convert", "FILE", "OUT/w.json", "--lenient", "--walltimes", "factor:2"),
    "simulate": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "easy", "-e", "OUT/run", "--quiet"),
}
_SLURM: Final[dict[str, Reading]] = {
    **_LOGS,
    "nodes": ("workload", "convert", "FILE", "OUT/w.json", "--lenient", "--size-in", "nodes", "--duplicates", "error"),
    "gpus": ("workload", "convert", "FILE", "OUT/w.json", "--size-in", "gpus", "--timezone", "Europe/Paris"),
}
_TABLES: Final[dict[str, Reading]] = {
    **_SLURM,
    "describe": ("workload", "describe-table", "FILE"),
    "mapped": ("workload", "convert", "FILE", "OUT/w.json", "--mapping", "HERE/mapping.toml", "--lenient"),
    "mapped-lint": ("workload", "lint", "FILE", "--mapping", "HERE/mapping.toml"),
    "pm100": ("workload", "lint", "FILE", "--format", "pm100"),
    "philly": ("workload", "stats", "FILE", "--format", "philly"),
}
_MAPPINGS: Final[dict[str, Reading]] = {
    "lint": ("workload", "lint", "HERE/jobs.csv", "--mapping", "FILE"),
    "convert": ("workload", "convert", "HERE/jobs.csv", "OUT/w.json", "--mapping", "FILE", "--lenient"),
}
_SIMULATED: Final[dict[str, Reading]] = {
    "easy": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "easy", "-e", "OUT/run", "--quiet"),
    "ujfb": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "ujfb", "-e", "OUT/run", "--quiet"),
}
_METRICS: Final[dict[str, Reading]] = {
    "metrics": ("metrics", "HERE/run"),
    "metrics-json": ("metrics", "HERE/run", "--json", "--partial"),
    "by": ("metrics", "HERE/run", "--by", "user", "--measure", "wait_s"),
    "against": ("metrics", "HERE/run", "--against", "HERE/good"),
    "columns": read_columns,
}
_PLATFORMS: Final[dict[str, Reading]] = {
    "show": ("platform", "show", "FILE"),
    "check": ("platform", "check", "FILE"),
    "check5": ("platform", "check", "--for", "batsim5", "FILE"),
    "energy": ("platform", "check", "-E", "FILE"),
}
_EVENTS: Final[dict[str, Reading]] = {
    "events5": ("workload", "events", "FILE", "--for", "batsim5", "--output", "OUT/e.txt"),
    "events4": ("workload", "events", "FILE", "--for", "batsim4", "--output", "OUT/e.txt"),
    "read": lambda path: external_events.read(path, n_hosts=8),
}
_JOURNALS: Final[dict[str, Reading]] = {
    "replay": ("replay", "FILE"),
    "explain": ("explain", "FILE", "w0!01"),
    "earlier": ("explain", "FILE", "w0!03", "--why-not-earlier"),
    "other": ("replay", "FILE", "--policy", "fcfs"),
    "stories": lambda path: job_histories(JournalReader(path)),
}
_SUMMARIES: Final[dict[str, Reading]] = {
    "before": ("compare", "FILE", "HERE/good_summary.json", "--fail-if", "mean_wait_s > +5%"),
    "after": ("compare", "HERE/good_summary.json", "FILE", "--fail-if", "n_jobs != 8"),
    **_METRICS,
}
_STATES: Final[dict[str, Reading]] = {
    **_METRICS,
    "after": ("compare", "HERE/good_summary.json", "HERE/run_summary.json", "--partial"),
}
_CAMPAIGN: Final[dict[str, Reading]] = {
    "status": ("campaign", "status", "HERE"),
    "table": ("campaign", "table", "HERE"),
    "by": ("campaign", "table", "HERE", "--by", "workload,policy,options", "--figures", "all"),
}


def targets() -> dict[str, tuple[Target, float]]:
    """Return the targets by name, each with its share of all mutations."""
    by_mapping = functools.partial(_files, packs=True, beside=mapping)
    of_run = functools.partial(_files, beside=two_runs)
    of_campaign = functools.partial(_files, beside=campaign_folder)
    made: list[tuple[Target, float]] = [
        (_files("swf", swf, _LOGS, TEXT, packs=True), 12),
        (_files("slurm", slurm, _SLURM, TEXT, packs=True), 10),
        (by_mapping("tables", tables, _TABLES, TEXT), 10),
        (by_mapping("json-tables", lambda: [json.dumps(PHILLY).encode()], _TABLES, JSON), 4),
        (_files("parquet-tables", parquet_tables, _TABLES, HALVES, beside=mapping), 6),
        (_files("mappings", mappings, _MAPPINGS, TEXT, beside=lambda folder: text_table(folder, *ROWS)), 6),
        (_files("workload4", workload4, _WORKLOADS, JSON, packs=True), 10),
        (_files("workload5", workload5, _WORKLOADS, JSON, packs=True), 10),
        (_files("simulated", simulated, _SIMULATED, JSON), 4),
        (_files("platform", platform, _PLATFORMS, TEXT), 10),
        (_files("events", events, _EVENTS, (*JSON, *LINES)), 8),
        (_files("journal", journals, _JOURNALS, (), one=mutated_journal), 10),
        (_files("campaign", campaign_files, {"spec": read_campaign}, TEXT), 8),
        (_files("config", configs, {"plan": lambda path: PolicySpec("easy", config=str(path)).plan()}, TEXT), 4),
        (of_run("summary", lambda: [run_files()["_summary.json"]], _SUMMARIES, JSON, file="run_summary.json"), 8),
        (of_run("run_jobs.csv", lambda: [run_files()["_jobs.csv"]], _METRICS, TEXT), 8),
        (of_run("run_schedule.csv", lambda: [run_files()["_schedule.csv"]], _METRICS, TEXT), 3),
        (of_run("run_consumed_energy.csv", lambda: [run_files()["_consumed_energy.csv"]], _METRICS, TEXT), 1),
        (of_run("run_state.json", lambda: [run_files()["_state.json"]], _STATES, JSON), 3),
        (
            of_campaign(
                "manifest", lambda: [campaign_results()["manifest.json"]], _CAMPAIGN, JSON, file="manifest.json"
            ),
            3,
        ),
        (of_campaign("cell", lambda: [campaign_results()[CELL]], _CAMPAIGN, JSON, file=CELL), 3),
    ]
    return {target.name: (target, share) for target, share in made}
