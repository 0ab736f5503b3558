"""Write sacct.txt.gz: random jobs, as the cluster of slurm.conf would have scheduled and recorded them."""

import gzip
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pybatsched as pb

HERE = Path(__file__).parent
USERS = {"ann": "physics", "ben": "physics", "cem": "chemistry", "dea": "chemistry", "fay": "biology", "gil": "biology"}


def write(rows: list[dict[str, float]]) -> None:
    """Write the log, with the times of a simulation."""
    draw = random.Random(1)
    lines = ["JobID|User|Account|Partition|Submit|Start|End|Timelimit|AllocCPUS|ReqMem|State"]
    for number, job in enumerate(rows, start=1):
        user = draw.choices(list(USERS), weights=[8, 4, 6, 1, 3, 2])[0]
        seconds = [round(job[name]) for name in ("submitted_at", "started_at", "ended_at")]
        times = [
            (datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%S") for s in seconds
        ]
        limit, size = round(job["walltime"] / 60) + 1, job["n_procs"]
        lines.append(f"{number}|{user}|{USERS[user]}|batch|{'|'.join(times)}|{limit}|{size}|2000Mc|COMPLETED")
    (HERE / "sacct.txt.gz").write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))


jobs = pb.generate_workload("lublin-batch", n_procs=128, days=63, load=0.6, walltimes="round", seed=1)
write(pb.simulate(jobs, "easy").jobs.sort("submitted_at").rows(named=True))
conf, shares = HERE / "slurm.conf", HERE / "associations.cfg"
slurm = pb.policy("slurm", slurm_conf=str(conf), associations=str(shares), seed=1)
write(pb.simulate(pb.read_workload(HERE / "sacct.txt.gz"), slurm).jobs.sort("submitted_at").rows(named=True))
