"""Learn in which order waiting jobs are to be taken, with numpy alone, and look how that does on weeks not seen before.

    python examples/learn.py [LOG] [--seed 1] [--output out/learn] [--quick]

LOG is SDSC-SP2 of the Parallel Workloads Archive unless another one is named; it is looked for in PYBATSCHED_TRACES, or
in ../shared/traces. The first half of the log is for training, the second for the test.

A job's score is linear in four features of it, and the best of those that may be chosen is: one that does not fit gets
a reservation, and others may go before it as in EASY. With weights of 0 this *is* EASY. The weights are found by an
evolution strategy (the cross-entropy method): draw some, play the same weeks with all, and draw the next ones around
the best. What it has found is written as an agent, which the policy rl runs anywhere:

    pybatsched simulate --procs 128 -w LOG --policy rl -o agent=out/learn/agent.py:agent -o window=128 -e out/learnt
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pybatsched.errors import PybatschedError
from pybatsched.gym import SchedulingEnv
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.run import run_policy
from pybatsched.workload import Workload, load

#: The bound of the bounded slowdowns.
TAU_S = 60.0
LOG = "SDSC-SP2-1998-4.2-cln.swf.gz"
WEEK_S = 7 * 86_400.0
WINDOW = 128
FEATURES = ("time", "size", "size * time", "wait")
#: A week is busy, and worth a test, if its jobs would keep so much of the machine busy for so long.
BUSY = 0.6
#: How many weeks the test is made of.
N_TESTS = 10

Agent = Callable[[Mapping[str, Any], Any], int]


def features(queue: Any) -> Any:
    """Give the features of each job of the window: all that the agent knows of it."""
    size, span, wait = queue[:, 1], queue[:, 2], queue[:, 3]
    return np.stack([span, np.log2(np.maximum(size, 1e-6)) / 10, size * span, wait], axis=1)


def choice(weights: Any, observation: Mapping[str, Any], mask: Any) -> int:
    """Choose the job of the best score, the first of equals; nobody only if nobody can be chosen."""
    scores = np.where(mask[:-1], features(observation["queue"]) @ weights, -np.inf)
    return int(scores.argmax()) if mask[:-1].any() else len(scores)


def agent_of(weights: Any) -> Agent:
    """Give the agent with these weights."""
    return lambda observation, mask: choice(weights, observation, mask)


def slowdown(env: SchedulingEnv, agent: Agent) -> float:
    """Play an episode. Gives its mean bounded slowdown."""
    observation, info = env.reset()
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, is_over, _, info = env.step(agent(observation, info["action_mask"].astype(bool)))
        total += reward
    return -total


def learn(envs: Sequence[SchedulingEnv], rng: np.random.Generator, n_rounds: int, n_drawn: int, n_weeks: int) -> Any:
    """Find weights: those that most of the best come to."""
    mean, spread = np.zeros(len(FEATURES)), np.ones(len(FEATURES))
    for number in range(1, n_rounds + 1):
        drawn = mean + spread * rng.standard_normal((n_drawn, len(FEATURES)))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)  # a score's scale changes no order
        costs = np.zeros(n_drawn)
        for place in rng.choice(len(envs), size=min(n_weeks, len(envs)), replace=False):  # the same for all
            costs += [math.log(slowdown(envs[place], agent_of(weights))) for weights in drawn]
        best = drawn[np.argsort(costs, kind="stable")[: max(n_drawn // 4, 2)]]
        mean, spread = best.mean(axis=0), 0.5 * spread + 0.5 * best.std(axis=0)
        told = ", ".join(f"{weight:+.2f} {name}" for weight, name in zip(mean, FEATURES, strict=True))
        print(f"round {number:>2}: {told}", flush=True)
    return mean


def busy_weeks(log: Workload) -> dict[int, Workload]:
    """Give the busy ones of the whole weeks of a log, by their numbers; all of them where none is busy."""
    first = min(job["subtime"] for job in log.jobs)
    jobs: dict[int, list[dict[str, Any]]] = {}
    for job in log.jobs:
        jobs.setdefault(int((job["subtime"] - first) // WEEK_S), []).append(job)
    del jobs[max(jobs)]  # which may be cut
    weeks = {number: Workload(members, log.profiles, log.n_procs, log.source) for number, members in jobs.items()}
    return {number: week for number, week in weeks.items() if offered(week) >= BUSY} or weeks


def offered(week: Workload) -> float:
    """Give the share of the machine that the jobs of a week would keep busy for a week."""
    work: float = sum(job["res"] * week.profiles[job["profile"]]["delay"] for job in week.jobs)
    return work / (week.n_procs * WEEK_S)


def by_policy(week: Workload, policy: str, **options: Any) -> float:
    """Give the mean bounded slowdown of a week under a policy."""
    plan = registry.PolicyPlan(registry.find(policy), options, trusted=True)
    result = run_policy(Scenario(uniform(week.n_procs), {"w0": week}), plan, Outputs(None), tau_s=TAU_S)
    return result.figures.mean_bounded_slowdown or 1.0


def write_agent(weights: Any, path: Path) -> None:
    """Write an agent that needs nothing but numpy: the functions above, and the weights."""
    sources = "\n\n".join(inspect.getsource(function) for function in (features, choice))
    path.write_text(
        '"""An agent that examples/learn.py has made."""\n\n'
        "from collections.abc import Mapping\nfrom typing import Any\n\n"
        f"import numpy as np\n\nWEIGHTS = np.array({[float(weight) for weight in weights]})\n\n\n{sources}\n\n"
        "def agent(observation: Mapping[str, Any], mask: Any) -> int:\n"
        '    """Choose."""\n    return choice(WEIGHTS, observation, mask)\n',
        encoding="utf-8",
    )


def draw(rows: Sequence[tuple[str, Mapping[str, float]]], path: Path) -> None:
    """Draw the weeks side by side."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  only the figure needs it
    except ModuleNotFoundError:
        print("no figure: that needs matplotlib, pip install 'pybatsched[plot]'")
        return
    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    names = list(rows[0][1])
    for number, name in enumerate(names):
        places = [place + (number - (len(names) - 1) / 2) * 0.8 / len(names) for place in range(len(rows))]
        axes.bar(places, [row[name] for _, row in rows], 0.8 / len(names), label=name)
    axes.set_yscale("log")
    axes.set_ylabel("mean bounded slowdown")
    axes.set_xticks(range(len(rows)), [label for label, _ in rows], rotation=30, ha="right")
    axes.legend(ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)
    print(f"the weeks in a figure: {path}")


def main() -> int:
    """Learn, test, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", metavar="LOG")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("out/learn"))
    parser.add_argument("--quick", action="store_true", help="a few jobs only, to see that it works")
    args = parser.parse_args()
    traces = Path(os.environ.get("PYBATSCHED_TRACES", "../shared/traces"))
    path = Path(args.log) if args.log else traces / LOG
    if not path.is_file():
        parser.error(f"there is no log {path}: name one, or set PYBATSCHED_TRACES to the directory of {LOG}")
    try:
        args.output.mkdir(parents=True, exist_ok=True)
        log = load(path)
    except (OSError, PybatschedError) as error:
        parser.error(str(error))
    weeks = list(busy_weeks(log).items())
    if args.quick:
        weeks = [(number, Workload(week.jobs[:60], log.profiles, log.n_procs)) for number, week in weeks[:4]]
    if len(weeks) < 2:
        parser.error(f"{path}: expected two weeks of jobs or more")
    half = len(weeks) // 2
    seen, unseen = weeks[:half], weeks[half:]
    unseen = unseen[:: max(len(unseen) // N_TESTS, 1)][:N_TESTS]
    print(f"{path.name}: {len(seen)} busy weeks to learn from, and {len(unseen)} after them for the test")

    begun_at = time.perf_counter()
    envs = [SchedulingEnv(week, log.n_procs, window=WINDOW, tau_s=TAU_S) for _, week in seen]
    weights = learn(envs, np.random.default_rng(args.seed), *((2, 4, 1) if args.quick else (6, 12, 2)))
    print(f"learnt in {time.perf_counter() - begun_at:.0f} s")
    write_agent(weights, args.output / "agent.py")

    rows = []
    agent = f"{args.output / 'agent.py'}:agent"
    for number, week in unseen:
        rows.append(
            (
                f"week {number}",
                {
                    "fcfs": by_policy(week, "fcfs"),
                    "easy": by_policy(week, "easy"),
                    "easy, sjf": by_policy(week, "easy", order="sjf"),
                    "learnt": by_policy(week, "rl", agent=agent, window=WINDOW),
                },
            )
        )
    names = list(rows[0][1])
    print(f"\n{'mean bounded slowdown':<22}{'jobs':>6}" + "".join(f"{name:>12}" for name in names))
    for (label, row), (_, week) in zip(rows, unseen, strict=True):
        print(f"{label:<22}{len(week.jobs):>6}" + "".join(f"{row[name]:>12.2f}" for name in names))
    ratios = [math.exp(float(np.mean([math.log(row[name] / row["easy"]) for _, row in rows]))) for name in names]
    print(f"{'to easy (geom. mean)':<22}{'':>6}" + "".join(f"{ratio:>12.2f}" for ratio in ratios))
    print(f"\nthe agent, for --policy rl: {agent}")
    draw(rows, args.output / "weeks.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
