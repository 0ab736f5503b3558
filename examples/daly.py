"""Compare checkpoint intervals around Daly's formula, for three mean times between failures (MTBF).

    python examples/daly.py [--failures 1000] [--quick]

One job on one host writes checkpoints of five minutes. Its work is as long as so many MTBFs. The same random failures
hit it with each interval. The overhead is the time that is not work (dumps, reads and lost work), over the work. The
minimum is that of the parabola through all points, over the logarithm of the interval.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

import pybatsched as pb
from pybatsched.workload.inject.checkpoints import daly_interval_s

DUMP_S = 300.0
MTBF_H = (6, 24, 96)
#: Intervals over Daly's one.
FACTORS = (0.4, 0.5, 0.63, 0.8, 1.0, 1.26, 1.6, 2.0, 2.5)


def overheads(mtbf_s: float, n_failures: int) -> list[float]:
    """Return the overhead of each interval: the time that is not work, over the work."""
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "work"}
    profiles = {"work": {"type": "delay", "delay": n_failures * mtbf_s}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps({"nb_res": 1, "jobs": [job], "profiles": profiles}), encoding="utf-8")
        log = pb.read_workload(path)
    found = []
    for factor in FACTORS:
        interval_s = factor * daly_interval_s(DUMP_S, mtbf_s)
        run = pb.simulate(
            log,
            "fcfs",
            failures={"mtbf": mtbf_s, "repair": "1m"},
            checkpoint={"interval": interval_s, "dump": DUMP_S},
            progress=False,
        )
        efficiency = run.figures["application_efficiency"]
        assert efficiency  # the job has run
        found.append(1 / efficiency - 1)
    return found


def minimum(values: list[float]) -> float:
    """Return the factor with the least overhead, by the parabola through all points."""
    second, first, _ = np.polyfit(np.log(FACTORS), values, 2)
    return math.exp(-first / (2 * second))


def main() -> int:
    """Print the overheads of all intervals, and the best one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=int, default=1000, help="failures of each run (1000)")
    parser.add_argument("--quick", action="store_true", help="100 failures: a rough result")
    args = parser.parse_args()
    print("MTBF    interval" + "".join(f"{factor:>8g}" for factor in FACTORS) + "  minimum")
    for hours in MTBF_H:
        mtbf_s = hours * 3600.0
        values = overheads(mtbf_s, 100 if args.quick else args.failures)
        interval = f"{daly_interval_s(DUMP_S, mtbf_s) / 60:.0f} min"
        cells = "".join(f"{value:>8.2%}" for value in values)
        print(f"{hours:>2} h {interval:>11}{cells}{minimum(values):>9.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
