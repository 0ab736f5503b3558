"""Where the engine's services hand in what they want done: a part of the actions that they may know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pybatsched.core.decisions import Decision, Reason

if TYPE_CHECKING:
    from pybatsched.core.jobs import Job


class Desk(Protocol):
    """The reply in the making, as services see it; `pybatsched.core.actions.Actions` is the one there is."""

    now: float

    def send(self, decision: Decision, **changes: Any) -> None:
        """Put a decision into the reply as it is."""

    def carry_out(self, decision: Decision) -> None:
        """Do what a decision says, state included."""

    def open_registration(self) -> None:
        """Make sure that jobs can be registered."""

    def take_shape(self, job: Job, reason: Reason) -> None:
        """Let a job that was reshaped be one of its shape towards Batsim."""
