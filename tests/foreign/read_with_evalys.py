"""Read a run's files with evalys and print its figures as JSON. Runs in the environment of build/foreign."""

from __future__ import annotations

import json
import sys
import types

# evalys.mstates imports four functions, which it does not use, from a module that is on no index any more.
sys.modules["intsetwrap"] = gone = types.ModuleType("intsetwrap")
for name in ("string_to_interval_set", "interval_set_to_set", "set_to_interval_set", "interval_set_to_string"):
    setattr(gone, name, None)

from evalys.jobset import JobSet  # type: ignore[import-not-found]  # noqa: E402
from evalys.mstates import MachineStatesChanges  # type: ignore[import-not-found]  # noqa: E402

prefix, n_procs = sys.argv[1], int(sys.argv[2])
jobs = JobSet.from_csv(f"{prefix}_jobs.csv", resource_bounds=(0, n_procs - 1))
states = MachineStatesChanges(f"{prefix}_machine_states.csv").df
print(
    json.dumps(
        {
            "n_jobs": len(jobs.df),
            "n_success": int(jobs.df.success.sum()),
            "n_procs": jobs.MaxProcs,
            "mean_wait_s": float(jobs.df.waiting_time.mean()),
            "max_wait_s": float(jobs.df.waiting_time.max()),
            "makespan_s": float(jobs.df.finish_time.max()),
            "mean_load": float(jobs.mean_utilisation()),
            "load": [[float(at), int(n)] for at, n in jobs.utilisation.load.items()],
            "queue": [[float(at), int(n)] for at, n in jobs.queue.load.items()],
            "allocations": dict(zip(jobs.df.jobID, map(str, jobs.df.allocated_resources), strict=True)),
            "n_machines": sorted({int(n) for n in states.total}),
            "computing": [[float(at), int(n)] for at, n in zip(states.time, states.nb_computing, strict=True)],
        }
    )
)
