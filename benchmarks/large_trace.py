"""Time and memory to read, check and prepare a trace of two million jobs, and to simulate it.

    python benchmarks/large_trace.py write FILE [--jobs N]      a random trace: .swf, .csv or .parquet; also .gz, .zst
    python benchmarks/large_trace.py measure FILE [--simulate]

The trace has the shape of Frontier's public log: 21 fields, up to 9,408 nodes, most jobs small and short, and the
number of nodes in the last field only. The same seed writes the same jobs. `measure` runs each step in a process of
its own, which reports its CPU time, its wall time and its peak memory: read the trace once, check it and make a
workload of it, as `workload convert --lint` does; and simulate EASY on 9,408 nodes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

N_NODES: Final = 9408
N_JOBS: Final = 2_000_000
_GPUS: Final = 8
_CORES: Final = 112
_BEGIN: Final = 1_704_067_200  # 2024-01-01
_SPAN_S: Final = 2 * 366 * 86_400
_FIELDS: Final = (
    *("job_id", "submit_time", "wait_time", "runtime", "allocated_nodes", "CPU_time_used", "RAM", "required_nodes"),
    *("walltime_limit", "RAM_requested", "job_status", "user_id", "group_id", "executable_number", "queue_id"),
    *("partition", "preceding_job", "think_time", "used_GPUs", "soft_walltime", "required_properties"),
)
_STEPS: Final = ("prepare", "simulate")


def jobs(n_jobs: int, seed: int = 1) -> Iterator[tuple[int, int, int, int, int, int, int, int]]:
    """Yield number, submission, wait, run time, nodes, limit, user and group of random jobs in order of submission."""
    draw = random.Random(seed)
    limits = (900, 1800, 3600, 7200, 7200, 14_400, 21_600, 43_200, 86_400)
    at = 0.0
    for number in range(1, n_jobs + 1):
        at += draw.expovariate(n_jobs / _SPAN_S)
        limit_s = draw.choice(limits)
        run_s = min(max(1, int(draw.lognormvariate(6.2, 2.0))), limit_s + 60)
        nodes = min(int(draw.paretovariate(0.9)), N_NODES) if draw.random() < 0.5 else 1
        user = int(draw.paretovariate(0.6)) % 1200
        yield number, int(at), int(draw.expovariate(1 / 3600)), run_s, nodes, limit_s, user, user % 150


def _swf(n_jobs: int) -> Iterator[str]:
    yield f"; Computer: Frontier (random jobs)\n; UnixStartTime: {_BEGIN}\n; JOB FIELDS MEANING:\n"
    yield "".join(f"; {index:2}: {name}\n" for index, name in enumerate(_FIELDS))
    for number, at, wait_s, run_s, nodes, limit_s, user, group in jobs(n_jobs):
        unreliable = nodes * (1 if number % 3 else 64)
        yield (
            f"{number} {at} {wait_s} {run_s} {unreliable} {run_s} -1 {unreliable} {limit_s} -1 {1 if number % 7 else 0}"
            f" {user} {group} -1 {number % 4} 0 -1 -1 {nodes * _GPUS} -1 frontier:excl:{nodes}x{_CORES}\n"
        )


_COLUMNS: Final = (
    "id",
    "submit_time",
    "start_time",
    "end_time",
    "time_limit",
    "nodes",
    "gpus",
    "state",
    "user",
    "account",
    "queue",
)


_MAPPING: Final = """\
[table]
size_in = "nodes"
[columns]
id = "id"
submit = "submit_time"
start = "start_time"
end = "end_time"
limit = { column = "time_limit", unit = "s" }
nodes = "nodes"
gpus = "gpus"
state = "state"
user = "user"
account = "account"
partition = "queue"
"""


def _row(job: tuple[int, int, int, int, int, int, int, int]) -> tuple[Any, ...]:
    number, at, wait_s, run_s, nodes, limit_s, user, group = job
    start = _BEGIN + at + wait_s
    state = "COMPLETED" if number % 7 else "FAILED"
    return (
        number, _BEGIN + at, start, start + run_s, limit_s, nodes, nodes * _GPUS, state, f"u{user}", f"a{group}",
        f"q{number % 4}",
    )  # fmt: skip


def _csv(n_jobs: int) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\n"
    for job in jobs(n_jobs):
        yield ",".join(map(str, _row(job))) + "\n"


def write(path: Path, n_jobs: int) -> None:
    """Write a trace in the format that the name of the file says."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".parquet"):
        import polars as pl  # noqa: PLC0415  only this format needs it

        rows = [_row(job) for job in jobs(n_jobs)]
        pl.DataFrame(rows, schema=list(_COLUMNS), orient="row").write_parquet(path)
        return
    lines = _csv(n_jobs) if name.endswith(".csv") else _swf(n_jobs)
    if path.suffix == ".zst":
        import zstandard  # noqa: PLC0415  only this format needs it

        with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as packed:
            for line in lines:
                packed.write(line.encode())
        return
    with gzip.open(path, "wt", compresslevel=6) if path.suffix == ".gz" else path.open("w") as out:
        out.writelines(lines)


def step(name: str, path: Path) -> None:
    """Do one step in this process, and print its figures as JSON."""
    from pybatsched.workload import reading  # noqa: PLC0415  the command that writes does not need it
    from pybatsched.workload.checks.lint import lint_content  # noqa: PLC0415
    from pybatsched.workload.formats.conversion import LogOptions  # noqa: PLC0415
    from pybatsched.workload.selection import Selection  # noqa: PLC0415
    from pybatsched.workload.walltimes import Walltimes  # noqa: PLC0415

    mapping = None
    if ".swf" not in path.name:
        mapping = str(path.with_name("large_trace.toml"))
        Path(mapping).write_text(_MAPPING, encoding="utf-8")
    before = time.process_time(), time.perf_counter()
    options = LogOptions(Walltimes.parse("requested"), n_procs=N_NODES, mapping=mapping)
    check = partial(lint_content, path, n_procs=N_NODES) if name == "prepare" else None
    workload, _ = reading.read(path, options, Selection(), check=check)
    if name == "simulate":
        before = time.process_time(), time.perf_counter()
        _simulate(workload)
    figures = {
        "step": name,
        "jobs": len(workload.jobs),
        "cpu_s": round(time.process_time() - before[0], 1),
        "wall_s": round(time.perf_counter() - before[1], 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(figures))


def _simulate(workload: Any) -> None:
    from pybatsched.platform.model import uniform  # noqa: PLC0415
    from pybatsched.policies import registry  # noqa: PLC0415
    from pybatsched.simulator.options import Scenario  # noqa: PLC0415
    from pybatsched.simulator.outputs.files import batsim_files  # noqa: PLC0415
    from pybatsched.simulator.run import run_policy  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        plan = registry.PolicyPlan(registry.find("easy"))
        run_policy(Scenario(uniform(N_NODES), {"w0": workload}), plan, batsim_files(f"{folder}/out"))


def main() -> None:
    """Write a trace, or measure the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "measure", *_STEPS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--jobs", type=int, default=N_JOBS)
    parser.add_argument("--simulate", action="store_true")
    args = parser.parse_args()
    if args.what == "write":
        write(args.file, args.jobs)
    elif args.what == "measure":
        for name in _STEPS if args.simulate else _STEPS[:1]:
            subprocess.run([sys.executable, __file__, name, str(args.file)], check=True)
    else:
        step(args.what, args.file)


if __name__ == "__main__":
    main()
