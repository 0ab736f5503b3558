"""Measure what a weekly maintenance of all hosts costs, by policy and by announcement.

    python examples/maintenance.py LOG [--procs N] [--from 63w --to 71w] [--policy easy ...] [--hours 8]

There are four runs for each policy:

* none: without maintenance;
* early: maintenance is known from the start, and no job starts that would overlap it by its requested time;
* late: the same, but each maintenance is known only one hour before, and jobs that still run run to their end;
* requeue: jobs start as always, and those that run when maintenance starts are killed and requeued.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import pybatsched as pb
from pybatsched.errors import PybatschedError

POLICIES: dict[str, dict[str, Any]] = {
    "fcfs": {},
    "easy": {},
    "easy sjf": {"name": "easy", "backfill_order": "sjf"},
    "conservative": {},
    "redirection": {"theta": 10},
    "dbf": {},
}
KINDS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "early": {"conflict": "wait"},
    "late": {"conflict": "wait", "notice": "1h"},
    "requeue": {"conflict": "requeue"},
}


def maintenance(n_procs: int, n_weeks: int, hours: float) -> dict[str, Any]:
    """Return a reservation of all hosts, once a week from the end of the first week on."""
    window = {"name": "maintenance", "start": "1w", "duration": f"{hours}h", "hosts": n_procs}
    return window | ({"every": "1w", "count": n_weeks - 1} if n_weeks > 2 else {})


def main() -> int:
    """Run all policies and print one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--procs", type=int, help="processors of the machine (default: as in the log)")
    parser.add_argument("--from", dest="start", default="0", help="use submissions from this time of the log on")
    parser.add_argument("--to", help="use submissions before this time of the log")
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--hours", type=float, default=8, help="length of the maintenance (8)")
    args = parser.parse_args()
    log = pb.read_workload(args.log).window(args.start, args.to)
    n_procs = args.procs or log.n_procs
    n_weeks = int(max(log.jobs["submitted_at"].to_list()) // (7 * 86_400)) + 1
    window = maintenance(n_procs, n_weeks, args.hours)
    print(f"{len(log):,} jobs in {n_weeks} weeks on {n_procs:,} processors")
    print(f"{'policy':<14}{'maintenance':<13}{'mean wait':>11}{'bounded slowdown':>18}{'utilisation':>13}{'killed':>8}")
    for name in args.policy:
        for kind, rules in KINDS.items():
            options: dict[str, Any] = {} if rules is None else {"host_reservations": [window | rules]}
            choice: dict[str, Any] = {"name": name, **POLICIES[name], **options}
            policy = pb.policy(**choice)
            figures = pb.simulate(log, policy, n_procs=n_procs, progress=False).figures
            wait_s, slowdown = figures["mean_wait_s"], figures["mean_bounded_slowdown"]
            killed = figures.get("n_reservation_kills", 0)
            busy = figures["utilisation"]
            print(f"{name:<14}{kind:<13}{wait_s:>9,.0f} s{slowdown:>18.1f}{busy:>13.1%}{killed:>8,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PybatschedError as error:
        sys.exit(f"maintenance.py: error: {error}")
