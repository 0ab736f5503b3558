"""Learn an order of waiting jobs with numpy, and test it on weeks that were not used for training.

    python examples/learn.py [LOG] [--seed 1] [--output out/learn] [--quick]

The default LOG is SDSC-SP2 of the Parallel Workloads Archive, in the directory PYBATSCHED_TRACES or ../shared/traces.
The first half of the log is for training, the second for the test.

The score of a job is linear in four features. The job with the best score is chosen; if it does not fit, it gets a
reservation, and other jobs may be backfilled as in EASY. With weights of 0 this is EASY. The weights are found with the
cross-entropy method: generate random weights, simulate the same weeks with all of them, and generate the next weights
around the best. The result is written as an agent for the policy rl:

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

from pybatsched import Log, simulate
from pybatsched.errors import PybatschedError
from pybatsched.gym import SchedulingEnv
from pybatsched.workload import Workload, load

#: The bound of the bounded slowdowns.
TAU_S = 60.0
LOG = "SDSC-SP2-1998-4.2-cln.swf.gz"
WEEK_S = 7 * 86_400.0
WINDOW = 128
FEATURES = ("time", "size", "size * time", "wait")
#: The lowest offered load of a busy week. Only busy weeks are used.
BUSY = 0.6
#: The number of weeks of the test.
N_TESTS = 10

Agent = Callable[[Mapping[str, Any], Any], int]


def features(queue: Any) -> Any:
    """Return the features of each job of the window, which are all that the agent uses."""
    size, span, wait = queue[:, 1], queue[:, 2], queue[:, 3]
    return np.stack([span, np.log2(np.maximum(size, 1e-6)) / 10, size * span, wait], axis=1)


def choice(weights: Any, observation: Mapping[str, Any], mask: Any) -> int:
    """Return the job with the best score, the first of equals; "nothing now" only if no job can be chosen."""
    scores = np.where(mask[:-1], features(observation["queue"]) @ weights, -np.inf)
    return int(scores.argmax()) if mask[:-1].any() else len(scores)


def agent_of(weights: Any) -> Agent:
    """Return the agent with these weights."""
    return lambda observation, mask: choice(weights, observation, mask)


def slowdown(env: SchedulingEnv, agent: Agent) -> float:
    """Run an episode and return its mean bounded slowdown."""
    observation, info = env.reset()
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, is_over, _, info = env.step(agent(observation, info["action_mask"].astype(bool)))
        total += reward
    return -total


def learn(envs: Sequence[SchedulingEnv], rng: np.random.Generator, n_rounds: int, n_samples: int, n_weeks: int) -> Any:
    """Return the mean of the best weights after the last round."""
    mean, spread = np.zeros(len(FEATURES)), np.ones(len(FEATURES))
    for number in range(1, n_rounds + 1):
        samples = mean + spread * rng.standard_normal((n_samples, len(FEATURES)))
        samples /= np.linalg.norm(samples, axis=1, keepdims=True)  # the scale of scores does not change the order
        costs = np.zeros(n_samples)
        for place in rng.choice(
            len(envs), size=min(n_weeks, len(envs)), replace=False
        ):  # the same weeks for all samples
            costs += [math.log(slowdown(envs[place], agent_of(weights))) for weights in samples]
        best = samples[np.argsort(costs, kind="stable")[: max(n_samples // 4, 2)]]
        mean, spread = best.mean(axis=0), 0.5 * spread + 0.5 * best.std(axis=0)
        shown = ", ".join(f"{weight:+.2f} {name}" for weight, name in zip(mean, FEATURES, strict=True))
        print(f"round {number:>2}: {shown}", flush=True)
    return mean


def busy_weeks(log: Workload) -> dict[int, Workload]:
    """Return the busy weeks among the complete weeks of a log, by number; all weeks if none is busy."""
    first = min(job["subtime"] for job in log.jobs)
    jobs: dict[int, list[dict[str, Any]]] = {}
    for job in log.jobs:
        jobs.setdefault(int((job["subtime"] - first) // WEEK_S), []).append(job)
    del jobs[max(jobs)]  # it may be incomplete
    weeks = {number: Workload(members, log.profiles, log.n_procs, log.source) for number, members in jobs.items()}
    return {number: week for number, week in weeks.items() if offered(week) >= BUSY} or weeks


def offered(week: Workload) -> float:
    """Return the offered load of a week."""
    work: float = sum(job["res"] * week.profiles[job["profile"]]["delay"] for job in week.jobs)
    return work / (week.n_procs * WEEK_S)


def by_policy(week: Workload, policy: str, **options: Any) -> float:
    """Return the mean bounded slowdown of a week under a policy."""
    run = simulate(Log(week, "week"), policy, tau_s=TAU_S, progress=False, **options)
    return run.figures["mean_bounded_slowdown"] or 1.0


def write_agent(weights: Any, path: Path) -> None:
    """Write an agent that needs only numpy: the functions above, and the weights."""
    sources = "\n\n".join(inspect.getsource(function) for function in (features, choice))
    path.write_text(
        '"""An agent from examples/learn.py."""\n\n'
        "from collections.abc import Mapping\nfrom typing import Any\n\n"
        f"import numpy as np\n\nWEIGHTS = np.array({[float(weight) for weight in weights]})\n\n\n{sources}\n\n"
        "def agent(observation: Mapping[str, Any], mask: Any) -> int:\n"
        '    """Return the chosen action."""\n    return choice(WEIGHTS, observation, mask)\n',
        encoding="utf-8",
    )


def draw(rows: Sequence[tuple[str, Mapping[str, float]]], path: Path) -> None:
    """Plot the weeks."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  only the chart needs it
    except ModuleNotFoundError:
        print("no chart: it needs matplotlib, pip install '.[plot]'")
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
    print(f"chart of the weeks: {path}")


def main() -> int:
    """Learn, test, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", metavar="LOG")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("out/learn"))
    parser.add_argument("--quick", action="store_true", help="only a few jobs, for a quick check")
    args = parser.parse_args()
    traces = Path(os.environ.get("PYBATSCHED_TRACES", "../shared/traces"))
    path = Path(args.log) if args.log else traces / LOG
    if not path.is_file():
        parser.error(f"log {path} does not exist; give another one, or set PYBATSCHED_TRACES to the directory of {LOG}")
    try:
        args.output.mkdir(parents=True, exist_ok=True)
        log = load(path)
    except (OSError, PybatschedError) as error:
        parser.error(str(error))
    weeks = list(busy_weeks(log).items())
    if args.quick:
        weeks = [(number, Workload(week.jobs[:60], log.profiles, log.n_procs)) for number, week in weeks[:4]]
    if len(weeks) < 2:
        parser.error(f"{path}: expected at least two weeks of jobs")
    half = len(weeks) // 2
    seen, unseen = weeks[:half], weeks[half:]
    unseen = unseen[:: max(len(unseen) // N_TESTS, 1)][:N_TESTS]
    print(f"{path.name}: {len(seen)} busy weeks for training, and {len(unseen)} later ones for the test")

    started_at = time.perf_counter()
    envs = [SchedulingEnv(week, log.n_procs, window=WINDOW, tau_s=TAU_S) for _, week in seen]
    weights = learn(envs, np.random.default_rng(args.seed), *((2, 4, 1) if args.quick else (6, 12, 2)))
    print(f"learnt in {time.perf_counter() - started_at:.0f} s")
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
