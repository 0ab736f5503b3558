"""Serve a policy to Batsim on a ZeroMQ endpoint (the default command)."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec

from pybatsched import __version__, registry
from pybatsched import decisions as d
from pybatsched import events as e
from pybatsched.engine import Reply
from pybatsched.errors import InputError, Interrupted, PybatschedError
from pybatsched.intervals import IntervalSet
from pybatsched.journal import JournalWriter
from pybatsched.protocol import Message
from pybatsched.server import DEFAULT_ENDPOINT, DEFAULT_TIMEOUT_S, ServerOptions, serve
from pybatsched.session import MAX_MESSAGE_BYTES, Session

EPILOG: Final = """\
options of a policy, strongest first: -o KEY=VALUE, Batsim's --sched-cfg (a JSON object), [policy.NAME] in --config.
--policy FILE.py:CLASS runs the code of that file.

When a run ends early while Batsim waits for a reply, the reply tells Batsim to abort, so that it does not hang.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `serve`."""
    add = parser.add_argument
    add("--policy", required=True, metavar="NAME", help="an installed policy, or path/to/file.py:Class")
    add(
        "-o",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the policy; the value is read as JSON, else as text (repeatable)",
    )
    add("--config", metavar="FILE.toml", help="options of policies, in tables [policy.NAME]")
    add(
        "--endpoint",
        "-s",
        "--socket-endpoint",
        default=DEFAULT_ENDPOINT,
        help="where to wait for Batsim (default %(default)s, this machine only)",
    )
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    add(
        "--timeout",
        type=_timeout,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="give up on a peer that is silent for so long after the start (default %(default)g, 0 = never)",
    )
    add(
        "--max-message",
        type=_megabytes,
        default=MAX_MESSAGE_BYTES,
        metavar="MIB",
        help=f"largest message to accept, in MiB (default {MAX_MESSAGE_BYTES // 2**20})",
    )
    add("-v", "--verbose", action="store_true", help="tell every message and decision, and tracebacks of plugins")


def run(args: argparse.Namespace) -> int:
    """Serve until the simulation has ended."""
    plan = policy_plan(args.policy, args.options, args.config)
    plan.check_early()
    _raise_on_signals()
    session = Session(plan, watch=narrate if args.verbose else None, max_bytes=args.max_message)

    def ready(endpoint: str) -> None:
        # Only now: a second start that cannot have the port must not touch the journal of the first.
        if args.journal is not None:
            session.record_in(JournalWriter(args.journal))
        _say(f"policy {args.policy}, waiting for Batsim at {endpoint}")

    how = "failed"
    try:
        serve(session, ServerOptions(args.endpoint, args.timeout), ready)
        how = "ended"
    except PybatschedError as error:
        how = f"failed with {type(error).__name__}"
        raise
    except (Interrupted, KeyboardInterrupt) as stop:
        how = "was interrupted"
        _say(f"stopped by {str(stop) or 'the keyboard'} after message {session.n_messages}")
        raise
    finally:
        session.close(how)
    _say(_summary(session))
    return 0


def policy_plan(name: str, given: list[str], config: str | None) -> registry.PolicyPlan:
    """Find a policy and gather the options the user gave for it."""
    source = registry.find(name)
    from_file: Mapping[str, Any] = {}
    if config is not None:
        from_file = _table(config, source.table_name)
    return registry.PolicyPlan(source, dict(map(_option, given)), from_file, config or "")


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"-o {text!r}: expected KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return key, value


def _table(path: str, name: str) -> Mapping[str, Any]:
    try:
        with Path(path).open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise InputError(f"--config {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--config {path}: {error}") from None
    strange = [key for key in content if key != "policy"]
    if strange:
        raise InputError(f"--config {path}: unknown key {strange[0]!r}; expected tables [policy.NAME]")
    tables = content.get("policy", {})
    for other in tables if isinstance(tables, dict) else ():
        if other != name and other not in registry.available():
            raise InputError(f"--config {path}: there is no policy {other!r} for the table [policy.{other}]")
    table = tables.get(name, {}) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        raise InputError(f"--config {path}: expected a table [policy.{name}]")
    return table


def _timeout(text: str) -> float:
    seconds = _number(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0")
    return seconds


def _megabytes(text: str) -> int:
    size = _number(text)
    if not (math.isfinite(size) and 0 < size <= 2**20):
        raise argparse.ArgumentTypeError(f"{text!r} is no size in MiB")
    return int(size * 2**20)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _raise_on_signals() -> None:
    def stop(signum: int, _frame: FrameType | None) -> NoReturn:
        raise Interrupted(signum)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def narrate(message: Message[e.Event], reply: Reply) -> None:
    """Tell one exchange to people, a line per event and decision."""
    lines = [f"t={message.now:g}"]
    lines += [f"  <- {_told(event)}" for event in message.items]
    for decision in reply.decisions:
        why = d.reason_text(decision.reason)
        lines.append(f"  -> {_told(decision)}" + (f"   # {why}" if why else ""))
    print("\n".join(lines), file=sys.stderr, flush=True)


def _told(item: e.Event | d.Decision) -> str:
    """Write an event or a decision in one line: its name and its short members."""
    hidden = {"timestamp", "reason", "extra", "beside"}
    values = [getattr(item, name) for name in item.__struct_fields__ if name not in hidden]
    shown = [str(value) for value in values if isinstance(value, str | int | float | IntervalSet | tuple)]
    return " ".join([type(item).__name__, *(text if len(text) <= 100 else text[:97] + "..." for text in shown)])


def _summary(session: Session) -> str:
    jobs = session.engine.jobs
    n_jobs = sum(jobs.n_over.values())
    counts = ", ".join(f"{n} {state.removeprefix('COMPLETED_').lower()}" for state, n in sorted(jobs.n_final.items()))
    told = f"simulation ended at {session.engine.now}: {n_jobs} jobs ({counts}) in {session.n_messages} messages"
    for n, reason in session.engine.rejections.values():
        why = d.reason_text(reason) or "no reason was given"
        told += f"\n  {n} rejected: {why}" + (" (the first of them)" if n > 1 else "")
    return told


def _say(text: str) -> None:
    print(f"pybatsched {__version__}: {text}", file=sys.stderr, flush=True)
