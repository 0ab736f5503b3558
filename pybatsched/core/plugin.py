"""The policy as the engine talks to it: what its code raises becomes a PolicyError that names policy and hook."""

from __future__ import annotations

import math
from typing import Any

from pybatsched.core.policy import Policy
from pybatsched.errors import NOT_THE_PLUGINS, PolicyError, told


class Plugin:
    """A policy, whose code may be anybody's."""

    def __init__(self, policy: Policy, name: str) -> None:
        self._policy = policy
        self._name = name

    def tell(self, hook: str, *args: Any) -> None:
        """Tell it what happened, by one of its hooks."""
        try:
            getattr(self._policy, hook)(*args)
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            raise self.raised(hook, error) from error

    def raised(self, hook: str, error: BaseException) -> PolicyError:
        """Give the error to raise for one that its code has raised."""
        return PolicyError(f"{hook} raised {told(error)}", policy=self._name, rule="no exception")

    def words(self, hook: str) -> tuple[str, ...]:
        """Ask for the lines that it has to say."""
        try:
            return tuple(map(str, getattr(self._policy, hook)()))
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            raise self.raised(hook, error) from error

    def figures(self) -> dict[str, float]:
        """Ask for its own numbers of the run; they are refused if they are none."""
        try:
            found = dict(self._policy.figures())
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            raise self.raised("figures", error) from error
        for name, value in found.items():
            is_number = type(value) in {int, float} and math.isfinite(value)
            if not (is_number and type(name) is str and name.isidentifier()):
                raise PolicyError(
                    f"figures gave {str(name)!r:.60}: {value!r:.60}; expected finite numbers by names of letters, "
                    "digits and underscores",
                    policy=self._name,
                    rule="figures are numbers",
                )
        return found
