"""A queue from which an agent chooses. This needs numpy: import it where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import SupportsIndex

from pybatsched import ChoiceOptions, ChoiceScheduler, Decision, Mask, Observation, Partition, observe


class AgentScheduler(ChoiceScheduler):
    """Asks an agent for each choice. O(window + running) each, plus the agent's time."""

    def __init__(
        self, partition: Partition, options: ChoiceOptions, agent: Callable[[Observation, Mask], SupportsIndex]
    ) -> None:
        super().__init__(partition, options)
        self.n_choices = 0
        self._agent = agent
        self._n_running = options.running

    def plan(self, now: float) -> Iterator[Decision]:
        """Ask the agent until it starts no more jobs."""
        is_asked = self.begin(now)
        while is_asked:
            self.n_choices += 1
            start = self.choose(self._agent(observe(self, self._n_running), self.mask))
            if start is not None:
                yield start
            is_asked = self.goes_on()
