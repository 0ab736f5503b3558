"""Campaign directories with given figures that were never run, for tests of tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pybatsched.campaign.store import Store


class Row(NamedTuple):
    """A point and its figures; None if it was not done, or failed with an error."""

    workload: str
    policy: str
    figures: Mapping[str, float | None] | None
    options: Mapping[str, Any] = {}
    platform: str = "own"
    seed: int = 0
    repeat: int = 0
    address: str = ""
    error: str = ""
    each: Mapping[str, Any] = {}
    warnings: Any = ()


def keep(
    folder: Path,
    rows: Sequence[Row],
    families: Sequence[str],
    charts: Sequence[Mapping[str, Any]] = (),
    baseline: str = "",
) -> Path:
    """Write a campaign's directory; one whose file names charts or a baseline, if these are given."""
    points = []
    with Store(folder) as store:
        for number, row in enumerate(rows):
            address = row.address or f"{number:064x}"
            if row.figures is not None:
                more = {"each": row.each} if row.each else {}
                more |= {"warnings": row.warnings} if row.warnings else {}
                store.save({"address": address, "figures": dict(row.figures), **more})
            elif row.error:
                store.save({"address": address, "error": row.error})
            own = {"workload": row.workload, "platform": row.platform, "policy": row.policy}
            points.append(own | {"options": row.options, "seed": row.seed, "repeat": row.repeat, "address": address})
        spec: dict[str, Any] = {"workload": [{"name": name} for name in families]}
        if charts:
            spec["chart"] = list(charts)
        if baseline:
            spec["baseline"] = baseline
        store.write_manifest({"name": "made-up", "spec": spec, "points": points})
    return folder


def scanned(folder: Path, n_weeks: int = 4) -> Path:
    """A study that scans two options on weeks of two logs; each alpha has a platform of its own, with a baseline."""
    rows = []
    for family, scale in (("curie", 3.0), ("ricc", 500.0)):
        for week in range(1, n_weeks + 1):
            for alpha, platform in ((0.1, "own-10"), (0.05, "own-05")):
                name = f"{family}-week{week:02}"
                rows.append(Row(name, "conservative", _figures(scale * week), platform=platform))
                for theta in (10, 2, 0.5):
                    value = scale * week * (0.5 + alpha) * (1 + theta / 10)
                    rows.append(Row(name, "redirection", _figures(value), {"theta": theta, "alpha": alpha}, platform))
    return keep(folder, rows, ("curie", "ricc"))


def _figures(value: float) -> dict[str, float | None]:
    means = {"mean_bounded_slowdown": value, "max_bounded_slowdown": 9 * value, "mean_wait_s": 60 * value}
    return {"n_jobs": 100, "utilisation": 0.8, "makespan_s": 6e5, **means}
