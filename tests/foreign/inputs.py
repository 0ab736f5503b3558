"""A platform without message delays and a workload with many equal times."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from support.free_links import equal_nodes

N_PROCS = 8
N_JOBS = 60
#: When machines that were unavailable come back, in the runs with events.
RETURNS = (10, 40)

# Three states that compute, then the sleep of pybatsim's fcfsSchedSleep (3), the way down (5 s) and up (20 s).
# batsim-py reads Batsim 3's name of the wattages, and two of them.
_SPEEDS = "1Gf,0.5Gf,0.25Gf,1f,0.2f,0.05f"
_ENERGY = {
    "wattage_per_state": "50:60:150,40:45:90,30:35:60,5:5:5,80:80:80,120:120:120",
    "watt_per_state": "50:150,40:90,30:60,5:5,80:80,120:120",
    "wattage_off": "4",
    "sleep_pstates": "3:4:5",
}


@dataclass(frozen=True)
class Input:
    """The files of a run; `args` are Batsim's and ours alike."""

    platform: Path
    workload: Path
    events: Path

    @property
    def args(self) -> list[str]:
        return ["-p", str(self.platform), "-w", str(self.workload)]

    @property
    def args_with_events(self) -> list[str]:
        return [*self.args, "--events", str(self.events)]


def write_input(directory: Path, *, energy: bool = False) -> Input:
    """Write a run of 60 jobs on 8 processors: delays and parallel tasks, many submitted or ending at the same time.

    All times are multiples of a power of two, which SimGrid's clock, a running sum, adds up without loss.
    """
    made = Input(directory / "platform.xml", directory / "workload.json", directory / "events.txt")
    speed, states = (_SPEEDS, _ENERGY) if energy else ("1Gf", {})
    made.platform.write_text(equal_nodes(N_PROCS, speed=speed, properties=states))
    rng = random.Random(7)
    durations = {f"d{s}": s for s in (2, 3, 4.5, 6, 8, 12)} | {f"p{s}": s for s in (2, 4, 5, 7.5)}
    profiles = {
        name: {"type": "delay", "delay": s}
        if name.startswith("d")
        else {"type": "parallel_homogeneous", "cpu": s * 1e9, "com": 0}
        for name, s in durations.items()
    }
    jobs = []
    now = 0.0
    for number in range(N_JOBS):
        now += rng.choice([0, 0, 0.5, 1, 2, 3])
        profile = rng.choice(sorted(profiles))
        walltime = durations[profile] * rng.choice([1.5, 2, 4])
        size = rng.choice([1, 1, 2, 3, 4, 6, 8])
        jobs.append({"id": str(number), "subtime": now, "res": size, "profile": profile, "walltime": walltime})
    made.workload.write_text(json.dumps({"nb_res": N_PROCS, "jobs": jobs, "profiles": profiles}))
    events = [("machine_unavailable", "1-2", 3), ("machine_unavailable", "0", 8)]
    events += [("machine_available", procs, at) for procs, at in zip(("1-2", "0"), RETURNS, strict=True)]
    lines = [json.dumps({"type": kind, "resources": procs, "timestamp": at}) for kind, procs, at in events]
    made.events.write_text("".join(f"{line}\n" for line in lines))
    return made
