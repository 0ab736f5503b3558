"""Agents: functions from what is seen and what is not masked to a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex, TypeAlias

from pybatsched.policies.choices import Mask
from pybatsched.policies.observations import Observation

#: What the policy ``rl`` runs: called with an observation and its mask, it gives a place of the window, or `window`.
Agent: TypeAlias = Callable[[Observation, Mask], SupportsIndex]


def in_queue_order(observation: Observation, mask: Mask) -> int:  # noqa: ARG001  an agent is shown both
    """Choose the first that may be chosen: EASY, as long as the whole queue is in the window."""
    return int(mask.argmax())
