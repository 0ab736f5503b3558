"""A Gymnasium environment for learning policies on the embedded simulator. See docs/learning.md.

>>> env = SchedulingEnv("examples/workload.json", 32)
>>> observation, info = env.reset(seed=1)
>>> observation["queue"].shape, int(info["action_mask"].sum())
((32, 6), 1)

It needs the extra ``rl``. No other package of pybatsched imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex, TypeAlias

from pybatsched.errors import InputError

try:
    import gymnasium
    import numpy as np  # noqa: F401  needed by the modules below: one error for all
except ModuleNotFoundError as error:
    text = str(InputError.not_installed(f"pybatsched.gym needs {error.name}", "rl"))
    raise ModuleNotFoundError(text, name=error.name) from None

from pybatsched.gym.env import SchedulingEnv
from pybatsched.gym.rewards import REWARDS, Since
from pybatsched.policies.choices import QUEUE, Mask, scaled, seconds
from pybatsched.policies.observations import MACHINE, RUNNING, TIME, Observation

__all__ = [
    "MACHINE",
    "QUEUE",
    "REWARDS",
    "RUNNING",
    "TIME",
    "Agent",
    "Observation",
    "SchedulingEnv",
    "Since",
    "in_queue_order",
    "scaled",
    "seconds",
]

#: The environment's id for `gymnasium.make`; with the prefix ``pybatsched.gym:`` it also imports this package.
ENV_ID = "pybatsched/Scheduling-v0"

if ENV_ID not in gymnasium.registry:
    gymnasium.register(ENV_ID, entry_point="pybatsched.gym.env:SchedulingEnv")

#: The agent of the policy ``rl``: it returns a place of the window, or `window` for "nothing now".
Agent: TypeAlias = Callable[[Observation, Mask], SupportsIndex]


def in_queue_order(observation: Observation, mask: Mask) -> int:  # noqa: ARG001  the interface of agents
    """Return the first allowed action: EASY, if the whole queue is in the window."""
    return int(mask.argmax())
