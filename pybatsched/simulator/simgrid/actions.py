"""What takes time in SimGrid's model of parallel tasks: sleeps, tasks and messages, and the clock that they move.

The clock is a running sum of doubles. In each step it moves to the next end of a sleep, a latency or a task, and the
rest of all others is reduced by that step. Ends are found by division. A rest below SimGrid's precision counts as 0.
Every step costs O(running actions), as in SimGrid; that is the price of equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from pybatsched.simulator.work.sharing import SharedResource, Sharing, User

#: A shorter time is none (SimGrid's precision of times).
NO_TIME_S: Final = 1e-9
#: A smaller rest of a task, as a share of it, is none.
NO_WORK: Final = 1e-14
#: The largest amount of data on the way, in bytes: it bounds the rate of transfers by their latency (TCP-gamma).
WINDOW_BYTES: Final = 4194304.0


class Needs(NamedTuple):
    """What a task needs: resources with weights, the bound of its rate by the network, and its latency."""

    resources: Sequence[tuple[SharedResource, float]]
    network_bound: float
    latency_s: float


class Action:
    """A sleep or a task. `on_end` is called when it has ended, after the clock has moved."""

    __slots__ = ("bound", "flops", "hosts", "latency_s", "left_s", "network_bound", "on_end", "remains", "seq", "user")

    def __init__(self, seq: int, on_end: Callable[[Action], None], hosts: Sequence[int]) -> None:
        self.seq = seq
        self.on_end = on_end
        self.hosts = hosts
        self.user: User | None = None
        self.flops: Sequence[tuple[int, float]] = ()
        self.network_bound = math.inf
        self.bound = math.inf
        self.latency_s = 0.0
        self.left_s = -1.0
        self.remains = 1.0


class Actions:
    """All running actions, in the order of their creation.

    `failed` and `ended` are those whose ends are to be handled, in order. `on_meter` gets the hosts of each action that
    ends, `on_load` those of tasks whose rate may be another one.
    """

    def __init__(self, speeds: Sequence[float]) -> None:
        self.now = 0.0
        self.speeds = list(speeds)
        self.on_meter: Callable[[Sequence[int]], None] | None = None
        self.on_load: Callable[[Sequence[int]], None] | None = None
        self._hosts_of: dict[User, Sequence[int]] = {}  # with `on_load`: of tasks that compute
        self.sharing = Sharing()
        self._n_made = 0
        self._sleeps: dict[Action, None] = {}
        self._tasks: dict[Action, None] = {}
        self.failed: list[Action] = []
        self.ended: list[Action] = []

    def sleep(self, span_s: float, on_end: Callable[[Action], None], host: int) -> Action:
        """Start a sleep on a host."""
        self._n_made += 1
        action = Action(self._n_made, on_end, (host,))
        action.left_s = span_s
        self._sleeps[action] = None
        return action

    def start(
        self,
        needs: Needs,
        on_end: Callable[[Action], None],
        hosts: Sequence[int],
        flops: Sequence[tuple[int, float]] = (),
    ) -> Action:
        """Start a task that waits for a latency, and then uses its resources, at most a core per executor."""
        self._n_made += 1
        action = Action(self._n_made, on_end, hosts)
        action.user = User(needs.resources)
        action.flops = flops
        action.network_bound = needs.network_bound
        action.bound = self._bound(action)
        action.latency_s = needs.latency_s
        if not needs.resources:
            action.remains = 0.0
        if needs.latency_s <= 0.0:
            self._use(action, action.user)
        self._tasks[action] = None
        if flops and self.on_load is not None:
            self._hosts_of[action.user] = hosts
        return action

    def _bound(self, action: Action) -> float:
        bound = action.network_bound
        for host, amount in action.flops:
            if amount > 0.0:
                bound = min(bound, self.speeds[host] / amount)
        return bound

    def change_speed(self, host: int, speed: float) -> None:
        """Change the speed of the cores of a host, whose resource has changed its capacity. O(running tasks)."""
        self.speeds[host] = speed
        for action in self._tasks:
            if host in action.hosts and action.user is not None:
                action.bound = self._bound(action)
                if action.latency_s <= 0.0:
                    action.user.bound = action.bound
                    for resource, _ in action.user.needs:
                        self.sharing.change(resource)

    def _use(self, action: Action, user: User) -> None:
        user.bound = action.bound
        self.sharing.add(user)

    def cancel(self, action: Action) -> None:
        """Stop an action: it is one of those that `failed`."""
        if self._stop(action):
            self._meter(action)
            self.failed.append(action)

    def drop(self, action: Action) -> None:
        """Forget an action, whatever its state."""
        self._stop(action)
        if action in self.ended:
            self.ended.remove(action)
        if action in self.failed:
            self.failed.remove(action)
        self.release(action)

    def _stop(self, action: Action) -> bool:
        for running in (self._sleeps, self._tasks):
            if action in running:
                del running[action]
                return True
        return False

    def release(self, action: Action) -> None:
        """Free the resources of an ended action."""
        if action.user is not None:
            if action.latency_s <= 0.0:
                self.sharing.remove(action.user)
            if self.on_load is not None and (hosts := self._hosts_of.pop(action.user, None)) is not None:
                self.on_load(hosts)
            action.user = None

    def next_step_s(self) -> float:
        """Return the time to the next end; -1 if nothing runs. O(running actions), and the rates after changes."""
        for changed in self.sharing.solve():
            if self.on_load is not None and (hosts := self._hosts_of.get(changed)) is not None:
                self.on_load(hosts)
        step = math.inf
        for action in self._sleeps:
            if 0.0 <= action.left_s < step:
                step = action.left_s
        for action in self._tasks:
            user = action.user
            assert user is not None
            if action.latency_s > 0.0:
                if action.latency_s < step:
                    step = action.latency_s
            elif (rate := user.rate) > 0.0:
                left = action.remains / rate if action.remains > 0.0 else 0.0
                if left < step:
                    step = left
        return -1.0 if step == math.inf else step

    def advance(self, step_s: float) -> None:
        """Move the clock. Actions that end in this step are added to `ended`. O(running actions)."""
        self.now += step_s
        ended = []
        for action in self._sleeps:
            if action.left_s >= 0.0:
                left = action.left_s - step_s
                action.left_s = left = 0.0 if left < NO_TIME_S else left
                if left <= 0.0:
                    ended.append(action)
        for action in self._tasks:
            user = action.user
            assert user is not None
            rate = user.rate
            if action.latency_s > 0.0:
                rate = 0.0
                latency = action.latency_s - step_s
                action.latency_s = latency = 0.0 if latency < NO_TIME_S else latency
                if latency <= 0.0:
                    self._use(action, user)
            remains = action.remains - rate * step_s
            action.remains = remains = 0.0 if remains < NO_WORK else remains
            if remains <= 0.0 and action.latency_s <= 0.0:
                ended.append(action)
        if len(ended) > 1:
            ended.sort(key=attrgetter("seq"))
        for action in ended:
            self._stop(action)
            self._meter(action)
        self.ended += ended

    def _meter(self, action: Action) -> None:
        if self.on_meter is not None:
            self.on_meter(action.hosts)
