"""The environment: one step is one choice. docs/learning.md describes observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pybatsched.core.jobs import Job
from pybatsched.deprecations import warn_user
from pybatsched.errors import InputError, spelled
from pybatsched.gym.episodes import Episodes, built_of
from pybatsched.gym.play import Environment, Play
from pybatsched.gym.rewards import Reward, reward_of
from pybatsched.policies.choices import Mask
from pybatsched.policies.observations import Observation, observe, shapes
from pybatsched.runs.execute import warnings_after
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import INSTEAD_OF_OPTIONS, MachineSpec, RunSpec, WorkloadSpec
from pybatsched.settings import as_keyword, misspelled, taken, takes
from pybatsched.workload import Workload

#: Settings of runs that the environment does not take, or takes in another form.
_NOT_TAKEN: Final = frozenset({"file", "platform", "stop_at", "seed", "allow_empty"})
_INSTEAD: Final = {**INSTEAD_OF_OPTIONS, "seed": "reset(seed=…)", "stop_at": "span_s=…"}


class SchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """Choose the job that starts next or gets a reservation, or no job for now.

    `workload` is a file of any format that pybatsched reads, or a `Workload`. `platform` is a platform file, the name
    of a machine, or a number of processors (None: that of the workload). An episode has `n_jobs` consecutive jobs or
    the jobs of `span_s` seconds, from a random job that depends on the seed; without both, it is the whole workload.

    Other keywords are settings of the workload, the machine and the run, as in `pybatsched.simulate` and
    `read_workload`. `window`, `running`, `reservations`, `order`, `assume_walltime`, `predict` and `correct` are
    options of the policy ``rl``; run the agent with the same values. `reward` is a name in `pybatsched.gym.REWARDS`, or
    a function of a `Since`.

    Reset: ``options={"start": k}`` starts with the k-th job instead of a random one. The information of each step has
    `action_mask` (for `Discrete.sample`) and `now`; that of the last step also has the `figures` of the episode.

    It can be pickled and copied, also during an episode: the actions are then replayed. O(episode).
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  as Gymnasium declares it

    @takes(MachineSpec, RunSpec, WorkloadSpec, without=_NOT_TAKEN, instead=_INSTEAD)
    def __init__(
        self,
        workload: str | Path | Workload,
        platform: str | Path | int | None = None,
        *,
        n_jobs: int | None = None,
        span_s: float | None = None,
        reward: str | Reward = "bounded_slowdown",
        **options: Any,
    ) -> None:
        settings = taken(SchedulingEnv.__init__, options)
        self._reward = reward_of(reward)
        try:
            policy = PolicySpec(Environment, options, given_by="Python")
            built = built_of(workload, platform, settings, policy)
            (whole,) = built.scenario.workloads.values()
            n_procs = built.scenario.platform.n_procs
            self._episodes = Episodes(whole, n_procs, n_jobs=n_jobs, span_s=span_s)
        except InputError as error:
            unknown = f"policy {Environment.__name__}: unknown option"
            text = error.spelled(as_keyword).replace(unknown, "SchedulingEnv: unknown keyword")
            raise misspelled(SchedulingEnv.__init__, error) or InputError(text) from None
        assert built.plan is not None
        self._tau_s = built.spec.tau_s
        self._plan, self._scenario = built.plan, built.scenario
        chosen = self._plan.options_for(self._scenario.options.begins()).model_dump(mode="json")
        self._n_running: int = chosen["running"]
        _warn(built.warnings)
        self._play: Play | None = None
        self._chosen: list[int] = []  # in this episode
        #: The workload of the episode, to run it elsewhere.
        self.workload: Workload | None = None
        self.action_space = spaces.Discrete(chosen["window"] + 1)
        seen = shapes(chosen["window"], self._n_running)
        space: Any = spaces.Dict({name: spaces.Box(0.0, 1.0, shape, np.float32) for name, shape in seen.items()})
        self.observation_space = space

    @property
    def n_starts(self) -> int:
        """The number of jobs with which an episode can start."""
        return self._episodes.n_starts

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode and run it to its first choice."""
        super().reset(seed=seed)
        if not isinstance(options, dict | None):
            raise InputError(f"reset: expected options by name, such as {{'start': 0}}, found {options!r:.60}")
        given = dict(options or {})
        start = given.pop("start", None)
        if given:
            raise InputError(f"reset: unknown option {next(iter(given))!r:.60}; expected start")
        if start is None:
            start = int(self.np_random.integers(self._episodes.n_starts))
        workload = self._episodes.at(start)
        play = self._begun(workload)
        self.workload, self._play, self._chosen = workload, play, []
        return self._seen(play), self._info(play)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply an action, and run to the next choice or the end of the episode."""
        play = self._current()
        if play.is_over:
            raise gymnasium.error.ResetNeeded("the episode has ended: call reset")
        since = play.choose(action)
        self._chosen.append(int(action))
        info = self._info(play)
        if since.figures is not None:
            info["figures"] = since.figures.as_dict()
            _warn(warnings_after(play.result))
        return self._seen(play), float(self._reward(since)), play.is_over, False, info

    def action_masks(self) -> Mask:
        """Return the allowed actions: the places of the window, and "nothing now" last."""
        return self._current().queue.mask

    def waiting(self) -> list[Job]:
        """Return the jobs of the window, in order."""
        queue = self._current().queue
        return [entry.job for entry in queue.queue[: queue.window]]

    def __getstate__(self) -> dict[str, Any]:
        """Replace the simulation, a suspended generator that cannot be pickled, by whether there is one."""
        return self.__dict__ | {"_play": self._play is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        has_begun = state["_play"]
        self.__dict__ |= state | {"_play": None}
        if has_begun and self.workload is not None:
            self._play = self._begun(self.workload)
            for place in self._chosen:
                self._play.choose(place)

    def _begun(self, workload: Workload) -> Play:
        return Play(replace(self._scenario, workloads={"w0": workload}), self._plan, self._tau_s)

    def _current(self) -> Play:
        if self._play is None:
            raise gymnasium.error.ResetNeeded("no episode has started: call reset")
        return self._play

    def _seen(self, play: Play) -> Observation:
        return observe(play.queue, self._n_running)

    def _info(self, play: Play) -> dict[str, Any]:
        mask: NDArray[np.int8] = play.queue.mask.view(np.int8)
        return {"action_mask": mask, "now": play.now}


def _warn(texts: Sequence[str]) -> None:
    """Show warnings at the line that called the environment."""
    for text in texts:
        warn_user(spelled(text, as_keyword))
