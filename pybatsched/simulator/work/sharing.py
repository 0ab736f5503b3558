"""Fair sharing of hosts and links among tasks: what SimGrid's solver "fair bottleneck" computes, to the last bit.

A resource has a capacity. A user (a task) advances at a rate, and uses of each of its resources its weight there times
its rate. A bound may limit the rate. All users start at rate 0 and gain together, in rounds. In a round, the free part
of each resource is split evenly among the users that still grow on it, and a user gains what its scarcest resource
gives. A user stops growing at its bound, or when one of its resources is used up. A fat pipe gives each user its whole
capacity.

Two properties of SimGrid are kept. A user that has reached its bound is charged its last gain again in each later
round, as long as other users grow on the same resource, so a little capacity may stay unused. A fat pipe loses in each
round only the smallest use of its users.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import Final

from pybatsched.errors import InputError

#: A free capacity below this is used up (SimGrid's precision of work amounts).
USED_UP: Final = 1e-5

#: With fat pipes, SimGrid's solver may run nearly for ever.
MAX_ROUNDS: Final = 20_000_000


class SharedResource:
    """A host or a link. `uses` has the weights of its present users, the newest last."""

    __slots__ = ("capacity", "free", "is_fatpipe", "share", "uses")

    def __init__(self, capacity: float, *, is_fatpipe: bool = False) -> None:
        self.capacity = capacity
        self.is_fatpipe = is_fatpipe
        self.uses: dict[tuple[User, int], float] = {}
        self.free = 0.0
        self.share = 0.0

    def load(self) -> float:
        """Return the used capacity. O(users)."""
        load = 0.0
        for (user, _), weight in reversed(self.uses.items()):
            used = weight * user.rate
            load = max(load, used) if self.is_fatpipe else load + used
        return load


class User:
    """A task: pairs of a resource and a weight above 0. A resource may occur several times. `bound` limits the rate."""

    __slots__ = ("_distinct", "bound", "gain", "needs", "rate")

    def __init__(self, needs: Sequence[tuple[SharedResource, float]], bound: float = math.inf) -> None:
        self.needs = needs
        self.bound = bound
        self.rate = 0.0
        self.gain = 0.0
        self._distinct: Sequence[tuple[SharedResource, float]] | None = None

    def distinct_needs(self) -> Sequence[tuple[SharedResource, float]]:
        """Return the needs without resources that nothing else uses and that are like another one. O(needs)."""
        if self._distinct is None:
            found: list[tuple[SharedResource, float]] = []
            alike: set[tuple[float, float, bool]] = set()
            for resource, weight in self.needs:
                if len(resource.uses) == 1:
                    kind = (resource.capacity, weight, resource.is_fatpipe)
                    if kind in alike:
                        continue
                    alike.add(kind)
                found.append((resource, weight))
            self._distinct = found
        return self._distinct

    def forget_distinct(self) -> None:
        """Record that another user has come to, or left, one of its resources."""
        self._distinct = None


class Sharing:
    """Users and their rates. `solve` computes the rates of those that a change affects; the others keep theirs.

    Users affect each other if they have a resource in common, directly or through others. O(distinct needs) of the
    affected users for each round; each round ends with a resource that is used up or a user at its bound.
    """

    def __init__(self) -> None:
        self._changed: dict[SharedResource, None] = {}

    def add(self, user: User) -> None:
        """Let a user share its resources. A user without needs has the rate 1."""
        for index, (resource, weight) in enumerate(user.needs):
            if len(resource.uses) == 1:
                for other, _ in resource.uses:
                    other.forget_distinct()
            resource.uses[user, index] = weight
            self._changed[resource] = None
        user.forget_distinct()
        user.rate = 0.0 if user.needs else 1.0

    def remove(self, user: User) -> None:
        """Remove a user. Its rate is 0 then."""
        for index, (resource, _) in enumerate(user.needs):
            del resource.uses[user, index]
            if len(resource.uses) == 1:
                for other, _ in resource.uses:
                    other.forget_distinct()
            self._changed[resource] = None
        user.rate = 0.0

    def change(self, resource: SharedResource) -> None:
        """Record that a capacity, or the bound of a user of this resource, is another one."""
        for user, _ in resource.uses:
            user.forget_distinct()
        self._changed[resource] = None

    def solve(self) -> Iterable[User]:
        """Compute the rates of all users that changes since the last call affect, and return these users."""
        if not self._changed:
            return ()
        users, resources = _affected(self._changed)
        self._changed.clear()
        if users:
            _share(users, resources)
        return users


def _affected(changed: Iterable[SharedResource]) -> tuple[dict[User, None], dict[SharedResource, None]]:
    users: dict[User, None] = {}
    resources = dict.fromkeys(changed)
    waiting = list(resources)
    while waiting:
        for user, _ in waiting.pop().uses:
            if user not in users:
                users[user] = None
                for resource, _ in user.distinct_needs():
                    if resource not in resources:
                        resources[resource] = None
                        waiting.append(resource)
    return users, resources


def _share(users: Iterable[User], resources: Iterable[SharedResource]) -> None:
    growing = dict.fromkeys(users)
    for user in growing:
        user.rate = 0.0
    for resource in resources:
        resource.free = resource.capacity
    is_open = list(resources)
    for _ in range(MAX_ROUNDS):
        is_open = [resource for resource in is_open if _offer(resource, growing)]
        for user in list(growing):
            gain = min([resource.share / weight for resource, weight in user.distinct_needs()])
            user.gain = gain = min(gain, user.bound - user.rate)
            user.rate += gain
            if user.rate == user.bound:
                del growing[user]
        for resource in is_open:
            _charge(resource)
            if resource.free <= 0.0:
                for user, _ in resource.uses:
                    growing.pop(user, None)
        if not growing:
            return
        if len(growing) == 1:
            alone = next(iter(growing))
            if len(alone.needs) == 1:
                _grow_alone(alone)
                return
        is_open = [resource for resource in is_open if resource.free > 0.0]
    raise too_many_rounds()


def _grow_alone(user: User) -> None:
    """Let the last user grow that still grows, on its only resource: the same rounds, of which there may be many."""
    resource, weight = user.needs[0]
    rate, bound, free = user.rate, user.bound, resource.free
    if resource.is_fatpipe:
        charged = [w * other.gain for (other, _), w in resource.uses.items() if other is not user]
        user.rate = _grow_in_fatpipe(rate, bound, free, weight, min(charged, default=math.inf))
        return
    for _ in range(MAX_ROUNDS):
        gain = min(free / weight, bound - rate)
        rate += gain
        user.gain, resource.free = gain, free
        _charge(resource)
        free = resource.free
        if rate == bound or free < USED_UP:
            user.rate = rate
            return
    raise too_many_rounds()


def _grow_in_fatpipe(rate: float, bound: float, free: float, weight: float, least: float) -> float:
    """Return the rate of the last growing user of a fat pipe. There may be millions of rounds."""
    for _ in range(MAX_ROUNDS):
        gain = free / weight
        if bound - rate < gain:
            gain = bound - rate
        rate += gain
        used = weight * gain
        if used > free:
            used = free
        if used > least:
            used = least
        free -= used
        if rate == bound or free < USED_UP:
            return rate
    raise too_many_rounds()


def too_many_rounds() -> InputError:
    """Return the error to raise for a fat pipe on which the solver would not end."""
    return InputError(
        "the rates of tasks on a FATPIPE link cannot be computed: SimGrid's solver would need more than "
        f"{MAX_ROUNDS:,} rounds; expected another sharing policy of the link"
    )


def _offer(resource: SharedResource, growing: Container[User]) -> bool:
    """Compute the share of each growing user; return whether there is one."""
    n_growing = 0
    for user, _ in resource.uses:
        if user in growing:
            n_growing += 1
    if n_growing:
        resource.share = resource.free if resource.is_fatpipe else resource.free / n_growing
    return n_growing > 0


def _charge(resource: SharedResource) -> None:
    """Subtract the gains of a round, the newest user first, as in SimGrid."""
    free = resource.free
    if resource.is_fatpipe:
        uses = [weight * user.gain for (user, _), weight in resource.uses.items()]
        free -= min(resource.share, *uses)
        resource.free = 0.0 if free < USED_UP else free
        return
    for (user, _), weight in reversed(resource.uses.items()):
        free -= weight * user.gain
        if free < USED_UP:
            free = 0.0
    resource.free = free
