"""Agents: functions that choose an action from an observation and its action mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex, TypeAlias

from pybatsched.policies.choices import Mask
from pybatsched.policies.observations import Observation

#: The agent of the policy ``rl``: it returns a place of the window, or `window` for "nothing now".
Agent: TypeAlias = Callable[[Observation, Mask], SupportsIndex]


def in_queue_order(observation: Observation, mask: Mask) -> int:  # noqa: ARG001  the interface of agents
    """Return the first allowed action: EASY, if the whole queue is in the window."""
    return int(mask.argmax())
