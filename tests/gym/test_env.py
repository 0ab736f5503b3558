"""The Gymnasium environment: Gymnasium's own checks, seeds, vectors, episodes, rewards and input errors."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given, strategies as st
from support.agents import by_numbers
from support.episodes import N_PROCS, Played, as_workload, crowds, played
from support.examples import examples
from support.packages import needed_for, without
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT

from pybatsched.errors import InputError
from pybatsched.gym import REWARDS, SchedulingEnv, Since, in_queue_order
from pybatsched.testing import Workload, run_policy
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate

EXAMPLE = ROOT / "examples" / "workload.json"


def drawn(n_jobs: int = 200, n_procs: int = 64) -> Any:
    return generate(Recipe("lublin", n_procs, seed=3, n_jobs=n_jobs, load=1.1))


@pytest.mark.parametrize("reward", [*REWARDS, lambda since: float(len(since.started))])
def test_the_environment_passes_gymnasiums_checks(reward: Any) -> None:
    made = {"platform": 32, "n_jobs": 12, "window": 5, "running": 3, "reward": reward}
    env = gymnasium.make("pybatsched.gym:pybatsched/Scheduling-v0", workload=EXAMPLE, **made)
    assert isinstance(env.unwrapped, SchedulingEnv)
    check_env(env.unwrapped)
    info = env.reset(seed=3)[1]
    action = env.action_space.sample(mask=info["action_mask"])
    assert env.step(action)[0]["queue"].shape == (5, 6)


@examples(60)
@given(crowds(), st.sampled_from(["fcfs", "sjf", "widest"]))
def test_choosing_the_first_allowed_job_equals_easy(jobs: Workload, order: str) -> None:
    expected = run_policy("easy", jobs, N_PROCS, order=order)
    found = played(SchedulingEnv(as_workload(jobs), order=order), in_queue_order)
    assert found.starts == {name: job.started_at for name, job in expected.jobs.items()}


def test_a_queue_that_is_longer_than_the_window_is_seen_in_part() -> None:
    """The schedule then differs from EASY, so the test above can fail."""
    expected = played(SchedulingEnv(drawn(), 64, window=200), in_queue_order)
    assert expected.starts == {
        job.id: job.started_at for job in run_policy("easy", Workload.from_json(vars_of(drawn())), 64).jobs.values()
    }
    assert played(SchedulingEnv(drawn(), 64, window=2), in_queue_order).starts != expected.starts


def vars_of(workload: Any) -> dict[str, Any]:
    return {"jobs": workload.jobs, "profiles": workload.profiles}


@examples(60)
@given(crowds(), st.integers(1, 6), st.booleans(), st.sampled_from(sorted(REWARDS)))
def test_every_job_runs_and_rewards_equal_the_figures_for_any_choices(
    jobs: Workload, window: int, reservations: bool, reward: str
) -> None:
    env = SchedulingEnv(
        as_workload(jobs), window=window, running=3, reservations=reservations, reward=reward, tau_s=10.0
    )
    found = played(env, by_numbers)
    assert found.figures["n_jobs"] == len(jobs.jobs) == len(found.starts)
    worth = {
        "bounded_slowdown": -found.figures["mean_bounded_slowdown"],
        "wait": -found.figures["mean_wait_s"],
        "utilisation": found.figures["utilisation"],
    }
    assert sum(found.rewards) == pytest.approx(worth[reward])


def test_an_own_reward_gets_the_events() -> None:
    events: list[Since] = []

    def reward(since: Since) -> float:
        events.append(since)
        return since.to_at - since.from_at

    jobs = Workload().job("a", n=2, s=10, at=1).job("b", n=2, s=5, at=3).job("c", n=1, s=4, at=4)
    found = played(SchedulingEnv(as_workload(jobs, 2), reward=reward), in_queue_order)
    assert found.rewards == [10, 5, 4]
    assert [[job.id for job in since.started] for since in events] == [["w0!a"], ["w0!b"], ["w0!c"]]
    assert [[job.id for job in since.ended] for since in events] == [["w0!a"], ["w0!b"], ["w0!c"]]
    assert [since.figures is not None for since in events] == [False, False, True]
    assert {(since.n_jobs, since.n_procs) for since in events} == {(3, 2)}


def test_jobs_that_are_not_evaluated_have_no_reward() -> None:
    jobs = Workload().job("a", n=2, s=10, evaluated=True).job("b", n=2, s=5, evaluated=False)
    jobs.job("c", n=2, s=5, at=1, evaluated=True)
    for reward, figure in (("wait", "mean_wait_s"), ("bounded_slowdown", "mean_bounded_slowdown")):
        found = played(SchedulingEnv(as_workload(jobs, 2), reward=reward, tau_s=1.0), in_queue_order)
        assert sum(found.rewards) == -found.figures[figure]
        assert found.figures["n_jobs"] == 2


def numbers(env: SchedulingEnv) -> list[int]:
    assert env.workload is not None
    return [int(job["id"]) for job in env.workload.jobs]


def six() -> Workload:
    jobs = Workload()
    for number, at in enumerate((5, 0, 10, 20, 20, 40)):  # the file need not be in order
        jobs.job(number, n=1 if number != 3 else 9, s=3, at=at)
    return jobs


def test_episodes_are_jobs_in_a_row() -> None:
    env = SchedulingEnv(as_workload(six()), n_jobs=2)
    assert env.n_starts == 4  # job 3 is too large for the machine
    found = []
    for start in range(4):
        env.reset(options={"start": start})
        found.append(numbers(env))
    assert found == [[1, 0], [0, 2], [2, 4], [4, 5]]
    assert env.reset(options={"start": 2})[1]["now"] == 10  # jobs keep their times


def test_jobs_of_an_episode_follow_others_of_it() -> None:
    """With feedback, a job whose previous job is not in the episode is submitted at its time in the log."""
    jobs = Workload().job(1, n=2, s=9)
    for number in (2, 3):
        jobs.job(number, n=2, s=9, at=100 * number, depends_on=number - 1, think_time=1)
    workload = as_workload(jobs, 2)
    workload.about["feedback"] = True
    assert played(SchedulingEnv(workload), in_queue_order).starts == {"w0!1": 0, "w0!2": 10, "w0!3": 20}
    part = played(SchedulingEnv(workload, n_jobs=2), in_queue_order, start=1)
    assert part.starts == {"w0!2": 200, "w0!3": 210}


def test_episodes_are_spans_of_time() -> None:
    env = SchedulingEnv(as_workload(six()), span_s=15)
    found = []
    for start in range(env.n_starts):
        env.reset(options={"start": start})
        found.append(numbers(env))
    assert found == [[1, 0, 2], [0, 2], [2, 4], [4]]
    env = SchedulingEnv(as_workload(six()), span_s=1000)
    assert env.n_starts == 1


def test_a_seed_draws_the_same_episodes() -> None:
    env, other = (SchedulingEnv(drawn(), n_jobs=20) for _ in range(2))
    drawn_by: list[list[Any]] = []
    for one in (env, other):
        one.reset(seed=7)
        first = [numbers(one)]
        for _ in range(3):
            one.reset()
            first.append(numbers(one))
        drawn_by.append(first)
    assert drawn_by[0] == drawn_by[1]
    assert len({tuple(found) for found in drawn_by[0]}) == 4
    again = played(env, by_numbers, seed=5)
    assert again == played(other, by_numbers, seed=5)
    assert again.actions != played(env, by_numbers, seed=6).actions


def test_an_abandoned_episode_does_not_change_the_next() -> None:
    env = SchedulingEnv(drawn(), n_jobs=20)
    whole = played(env, in_queue_order, seed=1)
    env.reset(seed=2)
    env.step(0)
    assert played(env, in_queue_order, seed=1) == whole


def test_an_episode_can_be_written_to_files(tmp_path: Path) -> None:
    env = SchedulingEnv(drawn(), n_jobs=20, window=20)
    found = played(env, in_queue_order, seed=4)
    assert env.workload is not None
    batsim4.write(env.workload, tmp_path / "w.json")
    expected = run_policy("easy", Workload.from_json(json.loads((tmp_path / "w.json").read_text())), 64)
    assert found.starts == {name: job.started_at for name, job in expected.jobs.items()}


def make() -> SchedulingEnv:
    return SchedulingEnv(EXAMPLE, 32, n_jobs=6, window=4)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_environments_in_a_vector_are_independent(kind: Any) -> None:
    alone = [played(make(), in_queue_order, seed=seed) for seed in (11, 12, 13)]
    envs = kind([make, make, make])
    try:
        _, infos = envs.reset(seed=[11, 12, 13])
        found = [Played() for _ in alone]
        is_over = np.zeros(3, dtype=bool)
        while not is_over.all():
            actions = infos["action_mask"].argmax(axis=1)
            _, rewards, ended, _, infos = envs.step(actions)
            for number, one in enumerate(found):
                if not is_over[number]:
                    one.actions.append(int(actions[number]))
                    one.rewards.append(float(rewards[number]))
            is_over |= ended
    finally:
        envs.close()
    assert [(one.actions, one.rewards) for one in found] == [(one.actions, one.rewards) for one in alone]


def pickled(env: Any) -> Any:
    return pickle.loads(pickle.dumps(env))


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
@pytest.mark.parametrize("platform", [32, ROOT / "platforms" / "cluster32.xml"])
def test_a_copy_continues_from_the_same_state(copied: Any, platform: Any) -> None:
    """At the start, in the middle, and at the end; the two do not influence each other."""
    env = SchedulingEnv(drawn(n_procs=32), platform, n_jobs=20, window=8)
    assert played(copied(env), by_numbers, seed=3) == played(env, by_numbers, seed=3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        copied(env).step(0)
    env.reset(seed=4)
    for _ in range(7):
        info = env.step(int(env.action_masks().argmax()))[-1]
    twin = copied(env)
    assert twin.unwrapped.workload == env.workload
    ends = []
    for one in (env, twin):
        rest, is_over = [], False
        while not is_over:
            observation, reward, is_over, _, info = one.step(int(one.action_masks().argmax()))
            rest.append((reward, info["now"], {name: array.tolist() for name, array in observation.items()}))
        ends.append((rest, info["figures"], one.reset()[1]["now"]))  # and draws the same next
    assert ends[0] == ends[1]


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {"platform": np.int64(64), "n_jobs": np.int32(20), "tau_s": np.float32(10)}
    env = SchedulingEnv(drawn(), **given)
    env.reset(options={"start": np.int64(3)})
    assert numbers(env) == [int(job["id"]) for job in drawn().jobs[3:23]]


def test_any_platform_and_workload(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    rows = (f"{n} {n * 10} 0 30 {n} -1 -1 {n} 60 -1 1 1 1 -1 1 -1 -1 -1\n" for n in range(1, 7))
    log.write_text("; MaxProcs: 6\n" + "".join(rows))
    cluster = ROOT / "platforms" / "cluster32.xml"
    found = [played(SchedulingEnv(log, platform), in_queue_order) for platform in (None, 6)]
    assert found[0] == found[1]
    for platform in (cluster, str(cluster), "sx-aurora", 32):
        starts = played(SchedulingEnv(log, platform), in_queue_order).starts
        assert starts == {f"w0!{n}": n * 10 for n in range(1, 7)}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reward": "fun"}, "reward: expected one of bounded_slowdown, wait, utilisation, or a function, found 'fun'"),
        ({"n_jobs": 7}, "drawn.json: expected at least 7 jobs (n_jobs) that fit the machine, found 5"),
        ({"n_jobs": 1, "span_s": 1}, "episodes: expected n_jobs or span_s, found both"),
        ({"n_jobs": 0}, "n_jobs=: expected a whole number, 1 or more, found 0"),
        ({"n_jobs": 2.5}, "n_jobs=: expected a whole number, 1 or more, found 2.5"),
        ({"n_jobs": "all"}, "n_jobs=: expected a whole number, 1 or more, found 'all'"),
        ({"span_s": -1.0}, "span_s=: expected a number above 0, found -1.0"),
        ({"span_s": "7d"}, "span_s=: expected a number above 0, found '7d'"),
        ({"span_s": float("nan")}, "span_s=: expected a number above 0, found nan"),
        ({"tau_s": -1}, "tau_s=: expected seconds, 0 or more, found -1"),
        ({"tau_s": float("nan")}, "tau_s=: expected seconds, 0 or more, found nan"),
        ({"tau_s": "a minute"}, "tau_s=: expected seconds, 0 or more, found 'a minute'"),
        ({"reward": ["wait"]}, "reward: expected one of bounded_slowdown, wait, utilisation, or a function, found ['w"),
        ({"platform": 2.5}, "platform=: expected a whole number, 1 or more, found 2.5"),
        ({"platform": True}, "platform=: expected a whole number, 1 or more, found True"),
        ({"window": 0}, "option window (from Python): expected 1 or more, found 0"),
        ({"order": "odd"}, "option order (from Python): expected one of fcfs, sjf"),
        ({"allow_empty": True}, "SchedulingEnv: unknown keyword 'allow_empty'"),
        ({"mtbf": "1d"}, "SchedulingEnv: unknown keyword 'mtbf'; did you mean failures={"),
        ({"stop_at": 5}, "SchedulingEnv: unknown keyword 'stop_at'; did you mean span_s=…?"),
        ({"windows": 3}, "unknown keyword 'windows' (from Python); did you mean 'window'? Expected one of: "),
        ({"n_proc": 3}, "SchedulingEnv: unknown keyword 'n_proc'; did you mean n_procs=…?"),
        ({"seed": 3}, "SchedulingEnv: unknown keyword 'seed'; did you mean reset(seed=…)?"),
        ({"platform": "nowhere"}, "unknown platform 'nowhere': expected a file"),
    ],
)
def test_wrong_arguments_are_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        SchedulingEnv(as_workload(six()), **more)
    assert message in str(caught.value)


def test_wrong_workloads_and_resets_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected jobs that fit the machine of 1 processor, found none"):
        SchedulingEnv(as_workload(Workload().job("a", n=2, s=1)), 1)
    with pytest.raises(InputError, match=r"gone\.json"):
        SchedulingEnv(tmp_path / "gone.json")
    env = SchedulingEnv(as_workload(six()))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    with pytest.raises(InputError, match="start: expected a whole number from 0 to 0, found 1"):
        env.reset(options={"start": 1})
    for start in (0.5, "first", True):
        with pytest.raises(InputError, match="start: expected a whole number from 0 to 0, found "):
            env.reset(options={"start": start})
    with pytest.raises(InputError, match="reset: unknown option 'begin'; expected start"):
        env.reset(options={"begin": 1})
    with pytest.raises(InputError, match="reset: expected options by name, such as {'start': 0}, found 'start'"):
        env.reset(options="start")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="workload: expected a file or a Workload, found {}"):
        SchedulingEnv({})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="walltimes=: works only with a file, not with a Workload"):
        SchedulingEnv(drawn(), walltimes="exact")
    with pytest.warns(UserWarning, match="1 job rejected, first reason: asks for 9 processors"):
        played(env, in_queue_order)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import pybatsched\nprint(pybatsched.Policy.__name__)\n"
        "try:\n    import pybatsched.gym\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    command = without(needed_for("rl") - needed_for("report") | {"gymnasium"}, program)  # type: ignore[arg-type]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S)
    assert (
        done.stdout == "Policy\npybatsched.gym needs gymnasium; run pip install '.[rl]' in a clone of pybatsched\n"
    ), done.stderr


def test_other_packages_do_not_import_numpy() -> None:
    program = (
        "import sys\nfrom pybatsched.policies import registry\n"
        "from pybatsched import LocalScheduler\n"
        "for name in registry.available(): registry.find(name)\n"
        "assert 'rl' in registry.available() and not {'numpy', 'gymnasium'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_OF_WORK_S)
