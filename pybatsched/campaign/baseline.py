"""Return the points of a campaign with their results, including figures against the baseline (docs/metrics.md).

A baseline is a policy of the campaign. A point is compared, job by job, with that policy's point on the same workload,
platform, seed and repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from pybatsched.campaign.store import Store
from pybatsched.metrics.compare.paired import PAIRED_BY, Impact, impact
from pybatsched.metrics.figure_names import renamed

#: Figures of points against the baseline of the campaign.
FIGURES: Final = Impact._fields
_NO_FIGURES: Final[Mapping[str, Any]] = dict.fromkeys(FIGURES)
#: Number of cached runs. The points of one workload follow each other, with their baseline.
_N_CACHED: Final = 8

PointResult: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]


def points_done(store: Store) -> Iterator[PointResult]:
    """Yield all points of a campaign in the order of its file, each with its result (empty if the cell was not run).

    With a baseline, this costs a few microseconds per job. Raises InputError if there is no campaign.
    """
    manifest = store.manifest()
    points = manifest["points"]
    results = store.results(point["address"] for point in points)
    label = manifest["spec"].get("baseline", "")
    base = {_key(point): point["address"] for point in points if label and point["policy"] == label}
    ends = lru_cache(_N_CACHED)(store.ends)
    for point in points:
        result = results.get(point["address"], {})
        if "figures" in result:
            result = {**result, "figures": renamed(result["figures"]), "each": _renamed_each(result.get("each", {}))}
        if label and "figures" in result:
            first, second = ends(base.get(_key(point), "")), ends(point["address"])
            own = impact(first, second)._asdict() if first is not None and second is not None else _NO_FIGURES
            result = {**result, "figures": {**result["figures"], **own}}
        yield point, result


def _renamed_each(each: Mapping[str, Any]) -> dict[str, Any]:
    return {key: {name: renamed(row) for name, row in of_each.items()} for key, of_each in each.items()}


def _key(point: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(point[name] for name in PAIRED_BY)
