"""Calls of a policy: exceptions and wrong results become errors, and endless calls are stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn

from pybatsched.core.instants import TICK
from pybatsched.core.jobs import Job
from pybatsched.core.policy import Policy
from pybatsched.core.validator import Violation
from pybatsched.errors import NOT_THE_PLUGINS, NotIntegerError, PolicyError, describe_error


class PolicyCaller:
    """Calls the methods of a policy and converts its exceptions to `PolicyError`."""

    def __init__(self, policy: Policy, name: str) -> None:
        self.policy = policy
        self.name = name

    def call(self, hook: str, *args: Any, of: object = None) -> Any:
        """Call one of its methods, or a method of a part such as its predictor. Return what that returns."""
        try:
            return getattr(of or self.policy, hook)(*args)
        except BaseException as error:  # noqa: BLE001  fail raises
            self.fail(hook, error)

    def fail(self, hook: str, error: BaseException) -> NoReturn:
        """Raise PolicyError for an exception of the policy's code. Other exceptions pass through."""
        if isinstance(error, NOT_THE_PLUGINS):
            raise error
        rule, text = "well-formed" if isinstance(error, NotIntegerError) else "no exception", describe_error(error)
        if isinstance(error, AttributeError) and isinstance(error.obj, Job):
            fields = error.obj.fields
            is_field = error.name in fields
            text += f"; write job.fields[{error.name!r}]" if is_field else f"; the job's fields are {', '.join(fields)}"
        raise PolicyError(f"{hook} raised {text}", policy=self.name, rule=rule) from error

    def lines(self, hook: str) -> tuple[str, ...]:
        """Return the lines of text that a method of the policy returns."""
        try:
            found = getattr(self.policy, hook)()
            if not isinstance(found, str | bytes) and isinstance(found, Iterable):
                return tuple(map(str, found))
        except BaseException as error:  # noqa: BLE001  fail raises
            self.fail(hook, error)
        raise self.returned(hook, found, "an iterable of texts such as a list, one text for each line")

    def returned(self, hook: str, found: object, expected: str) -> PolicyError:
        """Return the error to raise for a method that returns a value of the wrong type."""
        text = f"{hook} must return {expected}; it returned {type(found).__name__}: {found!r:.80}"
        return PolicyError(text, policy=self.name, rule="well-formed")

    def figures(self) -> dict[str, float]:
        """Return the policy's own numbers of the run. Raises PolicyError for values that are not numbers."""
        try:
            given: object = self.policy.figures()
            found = dict(given) if isinstance(given, Mapping) else None
        except BaseException as error:  # noqa: BLE001  fail raises
            self.fail("figures", error)
        if found is None:
            raise self.returned("figures", given, "a mapping of names to numbers, such as a dict")
        found = {name: float(value) if isinstance(value, float) else value for name, value in found.items()}
        for name, value in found.items():
            is_number = type(value) in {int, float} and math.isfinite(value)
            if not (is_number and type(name) is str and name.isidentifier()):
                raise PolicyError(
                    f"figures returned {str(name)!r:.60}: {value!r:.60}; expected finite numbers, with names of "
                    "letters, digits and underscores",
                    policy=self.name,
                    rule="figures are numbers",
                )
        return found


class IdleCalls:
    """Counts idle calls in a row, for policies that only keep requesting calls and would never finish."""

    #: A run is stopped after this many. An hourly call for a century is allowed.
    MAX: ClassVar[int] = 1_000_000
    #: The same while no other event can come, plus one for each hour. A call each second for half a day is allowed.
    MAX_AT_REST: ClassVar[int] = 50_000
    #: The same for calls within `AT_ONCE_S` of each other. Batsim 4 sends the fastest ones 10 ticks apart.
    MAX_AT_ONCE: ClassVar[int] = 1_000
    AT_ONCE_S: ClassVar[float] = 15 * TICK

    def __init__(self) -> None:
        self.n = 0
        self._n_at_once = 0
        self._since = self._last_at = 0.0

    def add(self, now: float) -> None:
        """Count a call. The engine sets `n` to 0 if anything else happens."""
        if not self.n:
            self._since = now
        if not self.n or now > self._last_at + self.AT_ONCE_S:
            self._n_at_once = 0
        self.n += 1
        self._n_at_once += 1
        self._last_at = now

    def check(self, is_at_rest: Callable[[], bool]) -> None:
        """Raise Violation if there are too many. `is_at_rest` tells whether no other event can come."""
        if self._n_at_once > self.MAX_AT_ONCE:
            text = (
                f"requested {self._n_at_once:,} calls in a row within 15 microseconds of each other, "
                f"the last at {self._last_at}"
            )
        elif self.n > self.MAX or (self.n > self.MAX_AT_REST + (self._last_at - self._since) / 3600 and is_at_rest()):
            text = f"requested {self.n:,} calls in a row, from {self._since} to {self._last_at}"
        else:
            return
        raise Violation("endless calls", f"{text}, and nothing else happened")
