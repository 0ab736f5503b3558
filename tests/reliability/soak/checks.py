"""Check a scene: run it in each way, compare the runs, and check all rules."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pybatsched.core.policy import Policy
from pybatsched.policies import registry
from pybatsched.session.journal import JournalReader
from pybatsched.session.session import Session
from pybatsched.session.transcript import is_same
from pybatsched.testing import plan_for
from reliability.soak.policy_promises import Promises
from reliability.soak.scene_runs import Played, embedded, jobs_of, over_a_socket, over_bytes
from reliability.soak.scenes import Scene
from reliability.soak.schedule_rules import schedule_problems

MESSAGES_PER_EVENT: Final = 10


@dataclass(slots=True)
class Verdict:
    """The problems of a scene, and counts of its events."""

    problems: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    ratio: float = 0.0


def judge(scene: Scene, policy: str | type[Policy] | None = None, *, socket: bool = False) -> Verdict:
    """Run a scene in each way and return all problems. `policy` may be a class that replaces the shipped one."""
    plan = plan_for(policy or scene.policy, **scene.options)
    inside = embedded(scene, plan)
    watch = Promises(scene)
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        journal = Path(folder) / "run.pbj"
        outside = over_bytes(scene, plan, journal, watch.look)
        problems = [*_sound(scene, inside), *watch.problems(outside)]
        problems += _differences("embedded", inside, "over the wire", outside)
        problems += _replayed(journal, plan, outside.ledger.n_messages + (scene.batsim == 5))
    if socket and not problems:
        problems += _differences("embedded", inside, "over a socket", over_a_socket(scene, plan))
    ledger = inside.ledger
    counts = ledger.counts + Counter(jobs=len(scene.jobs), outages=len(scene.outages), messages=ledger.n_messages)
    return Verdict(problems, counts, ledger.n_messages / max(ledger.n_events, 1))


def _differences(one: str, first: Played, other: str, second: Played) -> Iterator[str]:
    here, there = jobs_of(first), jobs_of(second)
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            yield f"{name} differs: {one} {here.get(name)}, {other} {there.get(name)}"
            return


def _replayed(journal: Path, plan: registry.PolicyPlan, n_said: int) -> Iterator[str]:
    """Play a journal at the policy again; it has all `n_said` messages, and all their replies if nothing failed."""
    session = Session(plan)
    exchanges = list(JournalReader(journal).exchanges())
    if len(exchanges) != n_said:
        yield f"the journal has {len(exchanges)} of {n_said} messages"
    for n, exchange in enumerate(exchanges, 1):
        if exchange.reply is None:
            if exchange.error is None:
                yield f"the journal does not say what came of message {n}"
            return
        try:
            answer = session.handle(exchange.request)
        except Exception as error:  # noqa: BLE001  whatever it is, it is no reply
            yield f"the replay of message {n} raised {type(error).__name__}: {error}"
            return
        if not is_same(exchange, answer):
            yield f"message {n} is answered otherwise in a replay: {answer.decode()[:300]}"
            return


def _sound(scene: Scene, played: Played) -> Iterator[str]:
    """Check a run by its schedule and its messages."""
    if played.error:
        yield played.error
        return
    yield from played.ledger.problems
    if not played.finished:
        left = sorted(name for name, fate in played.fates.items() if not fate.state)
        yield f"the run has not come to its end; left over are {', '.join(left) or 'no jobs'}"
        return
    yield from schedule_problems(scene, played.fates)
    yield from _messages(scene, played)


def _messages(scene: Scene, played: Played) -> Iterator[str]:
    n, allowed = played.ledger.n_messages, MESSAGES_PER_EVENT * played.ledger.n_events
    may_outlive = (job.walltime is None or job.walltime > (job.estimate or 0) for job in scene.jobs)
    if scene.policy == "reallocation" and any(may_outlive):
        # Plans then change with the clock, so that there is an event in each period while a job waits.
        first = min(job.at for job in scene.jobs)
        last = max([fate.end for fate in played.fates.values()] + [first])
        allowed += int((last - first) / scene.options.get("period", 3600)) + 1
    if n > allowed:
        yield f"{n} messages for {played.ledger.n_events} events"
