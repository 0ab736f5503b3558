"""A platform and a workload on which Batsim's messages cost no simulated time, and equal times are common."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

N_PROCS = 8
N_JOBS = 60
#: When machines that were unavailable come back, in the runs with events.
RETURNS = (10, 40)

_PLATFORM = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="site" routing="Full">
  <cluster id="nodes" prefix="node" suffix="" radical="100-107" speed="{speed}" bw="1e300Bps" lat="0">{energy}</cluster>
  <cluster id="front" prefix="boss" suffix="" radical="0-0" speed="1Gf" bw="1e300Bps" lat="0">
    <prop id="role" value="master"/>
    <prop id="wattage_per_state" value="10:10:10"/>
  </cluster>
  <link id="trunk" bandwidth="1e300Bps" latency="0"/>
  <zoneRoute src="nodes" dst="front" gw_src="nodenodes_router" gw_dst="bossfront_router">
    <link_ctn id="trunk"/>
  </zoneRoute>
 </zone>
</platform>
"""

# Three states that compute, then the sleep of pybatsim's fcfsSchedSleep (3), the way down (5 s) and up (20 s).
# batsim-py reads Batsim 3's name of the wattages, and two of them.
_SPEEDS = "1Gf,0.5Gf,0.25Gf,1f,0.2f,0.05f"
_ENERGY = """
    <prop id="wattage_per_state" value="50:60:150,40:45:90,30:35:60,5:5:5,80:80:80,120:120:120"/>
    <prop id="watt_per_state" value="50:150,40:90,30:60,5:5,80:80,120:120"/>
    <prop id="wattage_off" value="4"/>
    <prop id="sleep_pstates" value="3:4:5"/>
  """


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
    speed, states = (_SPEEDS, _ENERGY) if energy else ("1Gf", "")
    made.platform.write_text(_PLATFORM.format(speed=speed, energy=states))
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
