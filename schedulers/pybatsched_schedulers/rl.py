"""A trained agent as a policy: it is shown what it was shown in training, and its choices are carried out.

What can be chosen, and what comes of it, is told in `pybatsched.policies.choices`; docs/learning.md is about the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, Field

from pybatsched import ChoiceOptions, InputError, LocalPolicy, agent_of

if TYPE_CHECKING:
    from pybatsched import Cluster
    from pybatsched_schedulers.agent_queue import AgentScheduler


class RlOptions(ChoiceOptions):
    """Options of the policy."""

    agent: str = Field(
        min_length=1,
        description="module:object or path/to/file.py:object: a function from an observation and its mask to a choice, "
        "or a class of such; its code is run",
    )


class Rl(LocalPolicy):
    """Whatever an agent chooses from the queue: one that was trained with pybatsched.gym."""

    Options: ClassVar[type[BaseModel]] = RlOptions
    names_code = ("agent",)
    local: AgentScheduler

    def on_begin(self, cluster: Cluster) -> None:
        """Load the agent, and make the one partition."""
        try:
            from pybatsched_schedulers.agent_queue import AgentScheduler  # noqa: PLC0415  numpy is not for everybody
        except ModuleNotFoundError as error:
            raise InputError(f"policy rl needs {error.name}; pip install 'pybatsched[rl]'") from None
        agent = agent_of(self.options.agent, self.trusted_files)
        self.local = AgentScheduler(cluster.add_partition("all", cluster.procs), self.options, agent)
        self.locals = [self.local]

    def figures(self) -> Mapping[str, float]:
        """Count the choices."""
        return {"n_choices": self.local.n_choices}

    def remarks(self) -> Iterable[str]:
        """Say whether the agent knows what it may choose."""
        n = self.local.n_masked
        if n:
            yield f"the agent made {n:,} of {self.local.n_choices:,} choices that were masked; see docs/learning.md"
