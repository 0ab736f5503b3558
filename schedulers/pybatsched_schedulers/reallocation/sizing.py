"""Search for the site and the size with the earliest expected completion time of a job.

An expected completion time is the start that a site's local scheduler estimates plus the planned duration. The
estimates are the main cost. Most of them can be stopped early: a size that ends later than the best one so far is
discarded without an exact end.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pybatsched import TICK, instant
from pybatsched_schedulers.reallocation.grid import GridJob, Site
from pybatsched_schedulers.reallocation.options import Sizing


class SiteOffer(NamedTuple):
    """The offer of a site to a job: the expected end, and the size for it. The smallest is the best."""

    end_at: float
    nth: int  # of the sites
    n: int


class Sizes(Protocol):
    """The possible sizes of a job on a site, from 1 on."""

    n_most: int

    def soonest(self, n: int) -> float:
        """Return the earliest possible end of a size, with a start now. It is not later for larger sizes."""

    def end_at(self, n: int, not_after: float) -> float:
        """Return the expected end of a size; infinity if it never starts or ends after `not_after`."""

    def prefer(self, n: int, end_at: float, other: int) -> None:
        """Record that a search continues near size n, which ends at `end_at`, because `other` ends no earlier."""


def binary(sizes: Sizes, beat: float = math.inf) -> tuple[float, int]:
    """Search by bisection, as in the study. Return the earliest end of the checked sizes with the smallest size.

    Both ends of the range are checked, then its middle. The search continues in the half with the better end (the lower
    one for ties). At most 2 + log2(n) sizes are checked. A result that is not below `beat` is not exact.
    """
    low, high = 1, sizes.n_most
    if beat < math.inf and sizes.soonest(high) >= beat:
        return math.inf, high
    at_high = sizes.end_at(high, math.inf)
    if low == high:
        return at_high, high
    # The better end is always exact. The other one is infinite if it is worse.
    at_low = sizes.end_at(low, at_high)
    best = min((at_low, low), (at_high, high))
    while high - low > 1:
        middle = (low + high) // 2
        if at_low <= at_high:
            sizes.prefer(low, at_low, high)
            if beat < math.inf and sizes.soonest(middle) >= beat:
                break  # smaller sizes are not better
            high, at_high = middle, sizes.end_at(middle, at_low)
            best = min(best, (at_high, high))
        else:
            sizes.prefer(high, at_high, low)
            low, at_low = middle, sizes.end_at(middle, at_high)
            best = min(best, (at_low, low))
    return best


def exhaustive(sizes: Sizes, beat: float = math.inf) -> tuple[float, int]:
    """Check all sizes. Return the earliest end with the smallest size. See `binary` for `beat`."""
    best = (math.inf, sizes.n_most)
    for n in range(sizes.n_most, 0, -1):
        soonest = sizes.soonest(n)
        if (soonest >= beat and beat < math.inf) or soonest > best[0]:
            break  # smaller sizes end later
        best = min(best, (sizes.end_at(n, best[0]), n))
    return best


SEARCHES: Final = {"binary": binary, "exhaustive": exhaustive}


class OfferSearch:
    """Find the best offers for jobs at one time.

    `changes_at` is the first time at which the same search may find an earlier end although no plan has changed: ends
    of jobs that would start now move with the clock, so a bisection may check other sizes. It is infinite if that
    cannot happen. It is only exact if it is later than `watch_from`: the caller does not search again before.
    """

    def __init__(self, sites: Sequence[Site], now: float, sizing: Sizing, watch_from: float = math.inf) -> None:
        self.sites, self.now, self.sizing = sites, now, sizing
        self.watch_from, self.changes_at = watch_from, math.inf
        self._starts: dict[
            int, tuple[int, list[float]]
        ] = {}  # by site: the version of the plan, and the planned starts

    def end_on(self, one: GridJob, site: Site, n: int, not_after: float = math.inf) -> float:
        """Return the expected end of n processors on a site; infinity if it has none, or one after `not_after`."""
        span_s = one.span_s(site, n)
        start_at = site.local.estimate(n, span_s, self.now, not_after=not_after)
        return math.inf if start_at is None else instant(start_at, span_s)

    def watch(self, one: GridJob, site: Site, n: int, end_at: float, other: int) -> None:
        """Update `changes_at`: until when size n, which ends at `end_at`, is no worse than the `other` size.

        Only the end of a job that starts now moves with the clock, until it reaches the end of the other size or
        overlaps the planned start of another job. O(queue) once for each version of a plan, plus one estimate.
        """
        if self.changes_at <= self.watch_from:
            return
        span_s = one.span_s(site, n)
        if end_at == math.inf or end_at > instant(self.now, span_s):
            return  # the end is fixed by the plan
        starts = self._planned_starts(site)
        nth = bisect_left(starts, end_at - TICK)
        limit_at = starts[nth] if nth < len(starts) else math.inf
        if limit_at - span_s < self.changes_at:
            self.changes_at = limit_at - span_s
        other_s = one.span_s(site, other)
        other_start_at = site.local.estimate(other, other_s, self.now)
        if other_start_at is not None and other_start_at > self.now:  # else both move, or the other one never starts
            self.changes_at = min(self.changes_at, instant(other_start_at, other_s) - span_s)

    def _planned_starts(self, site: Site) -> list[float]:
        """Return the planned starts of the jobs that wait on a site, in order. O(queue) if the plan has changed."""
        version = site.local.plan_version(self.now)
        known = self._starts.get(site.index)
        if known is None or known[0] != version:
            found = (site.local.planned_start(job, self.now) for job in site.local.waiting())
            known = self._starts[site.index] = (version, sorted(start_at for start_at in found if start_at is not None))
        return known[1]

    def place_on(self, one: GridJob, site: Site, beat: float = math.inf) -> SiteOffer | None:
        """Return the best offer of a site; None if the job cannot run there, or none ends before `beat`."""
        sizes = one.sizes_on(site)
        if not sizes:
            return None
        n = sizes[-1]
        if one.moldable is not None:
            end_at, n = SEARCHES[self.sizing](_SizesOnSite(self, one, site, n), beat)
        else:
            end_at = self.end_on(one, site, n, beat)
        return SiteOffer(end_at, site.index, n) if end_at < beat or beat == math.inf else None

    def best_place(self, one: GridJob, *, but: Site | None = None, beat: float = math.inf) -> SiteOffer | None:
        """Return the offer with the earliest expected end, of the first site for ties. None as for one site."""
        best = None
        for site in self.sites:
            found = None if site is but else self.place_on(one, site, beat)
            if found is not None and (best is None or found < best):
                best = found
                beat = min(beat, found.end_at)
        return best


class _SizesOnSite:
    """The sizes of a moldable job on a site."""

    def __init__(self, search: OfferSearch, one: GridJob, site: Site, n_most: int) -> None:
        self._search, self._one, self._site = search, one, site
        self.n_most = n_most

    def soonest(self, n: int) -> float:
        return instant(self._search.now, self._one.span_s(self._site, n))

    def end_at(self, n: int, not_after: float) -> float:
        return self._search.end_on(self._one, self._site, n, not_after)

    def prefer(self, n: int, end_at: float, other: int) -> None:
        self._search.watch(self._one, self._site, n, end_at, other)


class MinMin:
    """Order jobs by the earliest expected end, the first for ties; a site is searched again after a change."""

    def __init__(self, jobs: Sequence[GridJob], search: OfferSearch) -> None:
        self._jobs = list(jobs)
        self._search = search
        self._known: dict[tuple[str, int], tuple[int, SiteOffer | None]] = {}

    def others(self) -> Iterator[tuple[GridJob, SiteOffer | None]]:
        """Return the jobs by their earliest ends, on their own or another site, with the best offer of another site."""
        while self._jobs:
            found = [(one, self._best(one, but=one.site)) for one in self._jobs]
            yield self._take(min(found, key=lambda pair: min(pair[0].planned_end(self._search.now), _end_at(pair[1]))))

    def anywhere(self) -> Iterator[tuple[GridJob, SiteOffer | None]]:
        """Return the jobs by their earliest ends on any site, with that offer."""
        while self._jobs:
            yield self._take(min(((one, self._best(one)) for one in self._jobs), key=lambda pair: _end_at(pair[1])))

    def _take(self, found: tuple[GridJob, SiteOffer | None]) -> tuple[GridJob, SiteOffer | None]:
        self._jobs.remove(found[0])
        return found

    def _best(self, one: GridJob, but: Site | None = None) -> SiteOffer | None:
        found = [self._place(one, site) for site in self._search.sites if site is not but]
        return min((place for place in found if place is not None), default=None)

    def _place(self, one: GridJob, site: Site) -> SiteOffer | None:
        version = site.local.plan_version(self._search.now)
        known = self._known.get((one.job.id, site.index))
        if known is None or known[0] != version:
            known = (version, self._search.place_on(one, site))
            self._known[one.job.id, site.index] = known
        return known[1]


def _end_at(place: SiteOffer | None) -> float:
    return math.inf if place is None else place.end_at
