"""Small files of every kind that pybatsched reads, generated or taken from the start of real logs."""

from __future__ import annotations

import functools
import gzip
import io
import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgpack
import polars as pl
from support import campaigns as made_campaigns, fingerprints, fuzzer
from support.logs import ONE_OF_EACH, SACCT_COLUMNS, line, sacct_line
from support.places import ROOT, TRACES
from support.process import run_cli
from support.tables import FRAMES, HEADER, MAPPING, PHILLY, ROWS, TEXTS, mapping, text_table

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
from reliability.fuzz.mutations import BYTES, change_value, mutated

_HEADS: Final = ("CTC-SP2-1996-3.1-cln.swf.gz", "CEA-Curie-2011-2.1-cln.swf.gz", "SX-ACE-2019.swf.gz")
_RACKHAM: Final = ("rackham/rackham-2022-03-01_V10000.txt.gz", "rackham/rackham-2022-09-10_V10000_anonymous.txt.gz")
_SLURM: Final = ("today/Cirrus-2024-Q1.sacct.csv.gz", "today/NREL-Eagle-sample.csv.gz")
_N_LINES: Final = 40


def _head(name: str) -> list[bytes]:
    """Return the first lines of a real log, if it is available."""
    path = TRACES / name
    if not path.exists():
        return []
    with gzip.open(path) as file:
        return [b"".join(next(file, b"") for _ in range(_N_LINES))]


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
    return [made, made, wide, *(content for name in _HEADS for content in _head(name))]


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
    return [piped, piped, quoted.encode(), *(content for name in _SLURM for content in _head(name))]


def tables() -> list[bytes]:
    """Tables as text, of the public sets and of another kind."""
    other = "\n".join([HEADER, *ROWS, ""]).encode()
    return [other, *(text.encode() for text in TEXTS.values())]


def json_tables() -> list[bytes]:
    """Tables as arrays of JSON objects."""
    return [json.dumps(PHILLY).encode()]


def parquet_tables() -> list[bytes]:
    """Tables as Parquet."""
    made = []
    for columns in FRAMES.values():
        content = io.BytesIO()
        pl.DataFrame(columns).write_parquet(content)
        made.append(content.getvalue())
    return made


def mappings() -> list[bytes]:
    """Mappings of tables."""
    folder = resources.files("pybatsched.workload.logs").joinpath("tables")
    return [MAPPING.encode(), *(folder.joinpath(f"{name}.toml").read_bytes() for name in SETS)]


def table_beside(folder: Path) -> None:
    """Write a table beside a mapping."""
    text_table(folder, *ROWS)


def mapping_beside(folder: Path) -> None:
    """Write a mapping beside a table."""
    mapping(folder)


def rackham() -> list[bytes]:
    """Files of the Rackham format."""
    made = "\n".join([*ONE_OF_EACH, ""]).encode()
    return [made, made, *(content for name in _RACKHAM for content in _head(name))]


def _random(seed: int, n_jobs: int = 8) -> Workload:
    content = fuzzer.random_workload(seed, n_jobs, 8)
    return Workload(content["jobs"], content["profiles"], 8, "w.json")


_FIELDS: Final[dict[str, Any]] = {
    "estimate": 5.0,
    "user": "eve",
    "queue": 1,
    "max_stay": 500,
    "urgent": True,
    "memory_gb": 4,
    "input_file": "f",
    "input_size_gb": 2,
    "moldable": {"fraction": 0.9, "limit": 96},
    "cluster": "a",
    "evaluated": True,
    "depends_on": ["0"],
}


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


PLATFORM: Final = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <config id="General"><prop id="network/model" value="CM02"/></config>
 <zone id="site" routing="Full">
  <prop id="site" value="R&amp;D"/>
  <cluster id="nodes" prefix="n" suffix=".x" radical="0-3,7" speed="1Gf,2f" core="2" bw="1GBps" lat="1us">
   <prop id="cores" value="2"/><prop id="watt_per_state" value="95.0:98.0:200.0, 93.0:95.0:170.0"/>
   <prop id="watt_off" value="10"/><prop id="sleep_pstates" value="1:1:1"/><prop id="memory_gb" value="128"/>
  </cluster>
  <zone id="front" routing="Full"><host id="master_host" speed="1Gf" coordinates="0 0 0">
   <prop id="wattage_per_state" value="100:200"/></host></zone>
  <host id="alone" speed="98.095Mf" pstate="0"><prop id="role" value="storage"/>
   <disk id="d" read_bw="1" write_bw="1"/></host>
  <link id="l" bandwidth="125MBps" latency="50us" sharing_policy="SHARED"/>
  <router id="r"/>
  <route src="alone" dst="r"><link_ctn id="l"/></route>
  <zoneRoute src="nodes" dst="front" gw_src="nnodes_router.x" gw_dst="master_host"><link_ctn id="l"/></zoneRoute>
 </zone>
</platform>
"""


def platform() -> list[bytes]:
    """Platform files: one of everything, and small ones of the recordings."""
    recorded = sorted((ROOT / "tests" / "conformance" / "recordings").glob("*/*/platform.xml"))
    different = dict.fromkeys(path.read_bytes() for path in recorded)
    small = [content for content in different if len(content) < 8000]
    return [PLATFORM.encode(), PLATFORM.encode(), *small]


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


def read_events(path: Path) -> None:
    """Read external events for a machine of eight hosts."""
    external_events.read(path, n_hosts=8)


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
    return b"".join(map(_packed, records))


def _packed(record: Any) -> bytes:
    packed: bytes = msgpack.packb(record, use_bin_type=True)
    return packed


def read_histories(path: Path) -> None:
    """Read all stories, as `report` does."""
    job_histories(JournalReader(path))


def campaigns() -> list[bytes]:
    """Campaign files: the example, and those of the published studies."""
    studies = sorted((ROOT / "studies").rglob("quick.toml"))
    rich = b"""name = "rich"
seeds = [1, 2]
repeats = 2
keep = "jobs"
tau_s = 10.0
each = ["user"]
baseline = "easy"
[[workload]]
name = "log"
file = "log.swf.gz"
from = "1d"
to = "2w"
[[workload]]
name = "drawn"
generate = { model = "poisson", procs = 64, days = 2.5, load = 0.8 }
[[platform]]
name = "p"
procs = 64
[[policy]]
name = "easy"
[[policy]]
name = "conservative"
label = "cbf"
options = { compression = [true, false], order = "sjf" }
platforms = ["p"]
[[chart]]
figure = "mean_wait_s"
by = "compression"
where = { policy = "cbf" }
"""
    return [rich, rich, (ROOT / "examples" / "campaign.toml").read_bytes(), *(path.read_bytes() for path in studies)]


def read_campaign(path: Path) -> None:
    """Read a campaign file, and all settings of its policies."""
    for policy in read_spec(path).policy:
        for _ in policy.settings():
            pass


def configs() -> list[bytes]:
    """Options of policies."""
    return [
        b'[policy.easy]\norder = "sjf"\nassume_walltime = 100\n[policy.ujfb]\nswap = "fixed"\nswap_out = [1, 2.5]\n',
        b"[policy.easy]\nassume_walltime = 1e3\n",
    ]


def read_config(path: Path) -> None:
    """Read options of a policy from a file."""
    PolicySpec("easy", config=str(path)).plan()


@functools.cache
def _run() -> dict[str, bytes]:
    """Simulate a few jobs with energy, and give all files of the run by their suffixes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload = fingerprints.drawn(random.Random(f"0 run {1}"))
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


def run_file(suffix: str) -> bytes:
    """Return a file of a run."""
    return _run()[suffix]


def two_runs(folder: Path) -> None:
    """Write the files of a run twice, by the prefixes `run` and `good`."""
    for suffix, content in _run().items():
        for prefix in ("run", "good"):
            (folder / f"{prefix}{suffix}").write_bytes(content)


def by_columns(prefix: str) -> None:
    """Read a run by columns, as `report` does."""
    run = read_latest(prefix, all_fields=False)
    list(run.jobs.frame)
    run.utilisation()


@functools.cache
def _campaign() -> tuple[tuple[str, bytes], ...]:
    with tempfile.TemporaryDirectory() as name:
        folder = made_campaigns.scanned(Path(name) / "campaign", n_weeks=1)
        return tuple(_contents(folder))


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*.json")):
        yield str(path.relative_to(folder)), path.read_bytes()


CELL: Final = f"cells/{0:064x}.json"


def campaign_folder(folder: Path) -> None:
    """Write the directory of a campaign that was run."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in _campaign():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def manifests() -> list[bytes]:
    """The manifest of a campaign."""
    return [dict(_campaign())["manifest.json"]]


def cells() -> list[bytes]:
    """The result of a cell."""
    return [dict(_campaign())[CELL]]
