"""Tables of a policy at an instant of a journal, such as the priorities of waiting jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pybatsched.core.engine import Engine
from pybatsched.core.policy import PolicyTable
from pybatsched.errors import InputError
from pybatsched.session.explain import PolicyReplay
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import session_for
from pybatsched.session.transcript import Transcript


def tables_at(
    reader: JournalReader, at: float, policy: str | None = None, given: Mapping[str, Any] | None = None
) -> tuple[float, Mapping[str, PolicyTable]]:
    """Return the tables of the policy after the last message up to a time, and the time of this message. O(journal).

    `policy` and `given` are as in `replay`. Raises InputError if the policy decides differently from the recorded one,
    or has no tables.
    """
    replayed, transcript = PolicyReplay(session_for(reader, policy, given)), Transcript()
    engine: Engine | None = None
    last = 0.0
    for exchange in reader.exchanges():
        now = transcript.events(exchange).now
        if now > at and engine is not None:
            break
        difference = replayed.play(exchange)
        if difference:
            raise InputError(f"{reader.path}: message {exchange.n}: {difference}")
        if replayed.engine is not None:
            engine, last = replayed.engine, now
    tables: Mapping[str, PolicyTable] = {} if engine is None else engine.policy.tables(last)
    if not tables:
        raise InputError(f"{reader.path}: the policy has no tables; expected a policy such as slurm")
    return last, tables
