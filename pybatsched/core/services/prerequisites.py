"""Items that wait for starts and ends of jobs and for times, and the calls that are requested for these times."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pybatsched.core import decisions as d
from pybatsched.core.instants import HALF_TICK, on_tick

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.dependencies import StartCondition


class HasId(Protocol):
    """An item with the id of a job."""

    @property
    def id(self) -> str:
        """The id of the job in the run."""


Item = TypeVar("Item", bound=HasId)


class WaitingItem(Generic[Item]):
    """An item whose conditions must all be met, or one of them (`is_any`). It is due at `at` or later."""

    __slots__ = ("at", "is_any", "is_over", "item", "n_left")

    def __init__(self, item: Item, at: float, n_left: int, *, is_any: bool = False) -> None:
        self.item = item
        self.at = at
        self.n_left = n_left  # conditions that are not decided
        self.is_any = is_any
        self.is_over = False  # it was due, or never will be


class Prerequisites(Generic[Item]):
    """The waiting items of a service. Each start, end and time costs O(log n) for each item that waits for it."""

    def __init__(self) -> None:
        #: By id, what waits for the start of a job, and for the end of a job.
        self.for_starts: dict[str, list[tuple[WaitingItem[Item], StartCondition]]] = {}
        self.for_ends: dict[str, list[tuple[WaitingItem[Item], StartCondition]]] = {}
        #: Items that can never be due, with the condition that cannot be met.
        self.never: list[tuple[Item, StartCondition]] = []
        self._due: list[tuple[float, int, WaitingItem[Item]]] = []  # a heap: times, numbers, and what is due then
        self._n = 0
        self._called_at: set[float] = set()

    def add(self, wait: WaitingItem[Item], conditions: Iterable[tuple[str, StartCondition]] = ()) -> None:
        """Add an item with its conditions that are not decided, each with the id of its job in the run."""
        for job_id, condition in conditions:
            on = self.for_starts if condition.kind == "after" else self.for_ends
            on.setdefault(job_id, []).append((wait, condition))
        if not wait.n_left:
            self._put(wait, wait.at)

    def started(self, job_id: str, at: float) -> None:
        """Decide the conditions on the start of a job."""
        for wait, condition in self.for_starts.pop(job_id, ()):
            self.decide(wait, condition, at + condition.delay_s)

    def ended(self, job_id: str, at: float, *, is_ok: bool) -> None:
        """Decide the conditions on the end of a job: whether it `is_ok`, a success."""
        for wait, condition in self.for_ends.pop(job_id, ()):
            self.decide(wait, condition, at + condition.delay_s if holds(condition, is_ok=is_ok) else None)

    def decide(self, wait: WaitingItem[Item], condition: StartCondition, met_at: float | None) -> None:
        """Decide a condition: it is met from a time on, or never."""
        if wait.is_over:
            return
        wait.n_left -= 1
        if wait.is_any:
            if met_at is not None:
                self._put(wait, max(wait.at, met_at))
                wait.n_left += 1  # another condition may be met at an earlier time; it can no longer fail
        elif met_at is not None:
            wait.at = max(wait.at, met_at)
            if not wait.n_left:
                self._put(wait, wait.at)
        if met_at is None and not (wait.is_any and wait.n_left):
            wait.is_over = True
            self.never.append((wait.item, condition))

    def _put(self, wait: WaitingItem[Item], at: float) -> None:
        self._n += 1
        heapq.heappush(self._due, (on_tick(at), self._n, wait))

    def due(self, now: float) -> Iterator[tuple[float, Item]]:
        """Yield what is due, with its time, in order of time."""
        while self._due and self._due[0][0] <= now + HALF_TICK:
            at, _, wait = heapq.heappop(self._due)
            if not wait.is_over:
                wait.is_over = True
                yield at, wait.item

    def next_due(self) -> tuple[float, Item] | None:
        """Return the next item that is due at a known time, with this time; None if there is none."""
        while self._due and self._due[0][2].is_over:  # one of several times of an item
            heapq.heappop(self._due)
        return (self._due[0][0], self._due[0][2].item) if self._due else None

    def request_call(self, actions: Actions, what: str) -> None:
        """Request a call for the next item; the reason `what` names its id."""
        self._called_at = {at for at in self._called_at if at > actions.now}
        found = self.next_due()
        if found is not None and found[0] not in self._called_at:
            self._called_at.add(found[0])
            actions.carry_out(d.CallMeLater(found[0], reason=(what, found[1].id)))

    def first_condition(self, item: Item) -> StartCondition | None:
        """Return a condition that an item waits for; None if it waits for a time only. O(all conditions)."""
        for waits in (*self.for_starts.values(), *self.for_ends.values()):
            for wait, condition in waits:
                if wait.item is item and not wait.is_over:
                    return condition
        return None


def holds(condition: StartCondition, *, is_ok: bool) -> bool:
    """Return whether a condition on the end of a job is met by an end with or without success."""
    return condition.kind not in {"afterok", "afternotok"} or is_ok is (condition.kind == "afterok")
