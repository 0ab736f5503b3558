"""A trained agent as a policy, with the observations and choices of its training (docs/learning.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, Field

from pybatsched import ChoiceOptions, InputError, LocalPolicy, agent_of

if TYPE_CHECKING:
    from pybatsched import ChoiceScheduler, Cluster


class RlOptions(ChoiceOptions):
    """Options of the policy."""

    agent: str = Field(
        min_length=1,
        description="module:object or path/to/file.py:object: a function that maps an observation and its mask to a "
        "choice, or a class of such functions; its code is run",
    )


class Rl(LocalPolicy):
    """An agent, trained with pybatsched.gym, chooses the jobs from the queue."""

    Options: ClassVar[type[BaseModel]] = RlOptions
    names_code = ("agent",)
    local: ChoiceScheduler

    def on_begin(self, cluster: Cluster) -> None:
        """Load the agent and create one partition of all processors."""
        try:
            from pybatsched import ChoiceScheduler, observe  # noqa: PLC0415  numpy is optional
        except ModuleNotFoundError as error:
            raise InputError.not_installed(f"policy rl needs {error.name}", "rl") from None
        agent, n_running = agent_of(self.options.agent, self.trusted_files), self.options.running
        self.local = ChoiceScheduler(
            cluster.add_partition("all", cluster.procs),
            self.options,
            lambda queue: agent(observe(queue, n_running), queue.mask),
        )
        self.locals = [self.local]

    def figures(self) -> Mapping[str, float]:
        """Count the choices."""
        return {"n_choices": self.local.n_choices}

    def remarks(self) -> Iterable[str]:
        """Report masked choices of the agent."""
        n = self.local.n_masked
        if n:
            yield f"the agent made {n:,} of {self.local.n_choices:,} choices that were masked; see docs/learning.md"
