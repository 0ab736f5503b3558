"""Random grids, and crowded workloads for them."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from pybatsched.testing import Workload
from support.gridded import Grid

#: Options of reallocation in all combinations; events are frequent, so that there are many.
VARIANTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "algorithm": st.sampled_from(["none", "regular", "regular", "all_cancellation", "all_cancellation"]),
        "heuristic": st.sampled_from(["mct", "minmin"]),
        "sizing": st.sampled_from(["binary", "exhaustive"]),
        "local": st.sampled_from(["conservative", "conservative", "fcfs"]),
        "period": st.sampled_from([10, 10, 12.5, 20, 50, 10 / 3]),
        "threshold": st.sampled_from([0, 0.1, 1, 5, 20]),
        "window": st.sampled_from([1, 2, 3, 20]),
        "local_options": st.sampled_from([{}, {}, {"compression": False}, {"assume_walltime": 100}]),
    }
).map(lambda given: given | {"local_options": {}} if given["local"] == "fcfs" else given)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Draw one to three clusters, of equal speeds or not."""
    sizes = draw(st.just([4, 4]) | st.lists(st.integers(1, 8), min_size=1, max_size=3))
    unit = draw(st.sampled_from([1, 2.5e9]))  # of the speeds
    drawn_speeds = st.lists(st.sampled_from([1, 1, 1.2, 1.4, 2]), min_size=3, max_size=3)
    speeds = draw(st.just([None] * 3) | drawn_speeds.map(lambda found: [unit * speed for speed in found]))
    return Grid({f"c{nth}": (n, speeds[nth]) for nth, n in enumerate(sizes)})


def crowd(grid: Grid, seed: int, n_jobs: int, *, honest: bool = True, unscaled: bool = True) -> Workload:
    """Draw a crowded workload of grid jobs, moldable or not, and external ones; honest jobs end by their estimates.

    Fewer jobs of the same seed are the first of more.
    """
    dice = random.Random(seed)
    workload = Workload()
    names = sorted(grid.clusters)
    largest = max(n for n, _ in grid.clusters.values())
    longest, unit = dice.choice([8, 40, 90]), dice.choice([1, 1, 1, 0.5, 1 / 3])
    slack_s = dice.choice([[0], [0, 0, 1, 7, 40], [0, 100], [1, 200], [0, 50, 1000]])
    gaps = dice.choice([[0, 0, 0, 1, 4, 10, 20], [0, 0, 2], [0, 5, 10]])
    n_external, n_moldable = dice.choice([0, 1, 5]), dice.choice([0, 3, 6])  # of six
    at = 0.0
    for index in range(n_jobs):
        at = round(at + dice.choice(gaps) * unit, 6)
        run_s = round(dice.randint(1, longest) * unit, 6)
        walltime = round(run_s + dice.choice(slack_s) * unit, 6)
        fields: dict[str, Any] = {"walltime": walltime}
        if not dice.randrange(8):
            fields = {"estimate": walltime, "walltime": walltime + 10}
        n = dice.randint(1, largest + (not dice.randrange(20)))
        if dice.randrange(6) < n_external:
            fields |= {"external": True, "cluster": dice.choice(names)}
        elif dice.randrange(6) < n_moldable:
            n = dice.randint(1, 2 * largest)
            fraction = dice.choice([0, 0.5, 0.8, 0.99, 1])
            fields["moldable"] = {"fraction": fraction, "limit": dice.choice([1, 2, 3, largest, 100])}
        if not honest:
            fields |= dice.choice([{}, {"estimate": round(dice.randint(1, 30) * unit, 6)}])
        workload.job(f"{index:02}", n=n, s=run_s, at=at, **fields)
        if unscaled and "moldable" not in fields and not dice.randrange(10):
            workload.jobs[-1]["profile"] = name = f"work{run_s}"
            workload.profiles[name] = {"type": "parallel_homogeneous", "cpu": run_s * 1e9, "com": 0}
        elif not dice.randrange(10):
            workload.jobs[-1]["profile"] = name = f"parts{run_s}"
            parts = {f"{name}a": round(run_s / 3, 6), f"{name}b": round(run_s - round(run_s / 3, 6), 6)}
            workload.profiles |= {part: {"type": "delay", "delay": delay} for part, delay in parts.items()}
            workload.profiles[name] = {"type": "composed", "repeat": 1, "seq": list(parts)}
    return workload


def crowds(grid: Grid, *, most: int = 40, honest: bool = True, unscaled: bool = True) -> st.SearchStrategy[Workload]:
    """Draw crowded workloads."""
    seeds, sizes = st.integers(0, 2**32), st.integers(1, most)
    return st.builds(crowd, st.just(grid), seeds, sizes, honest=st.just(honest), unscaled=st.just(unscaled))
