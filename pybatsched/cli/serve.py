"""Serve a policy to Batsim on a ZeroMQ endpoint (the default command)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Final

from pybatsched.cli.common import arguments, process
from pybatsched.cli.common.progress import print_exchange
from pybatsched.core import decisions as d
from pybatsched.errors import BrokenPromiseError, InputError, Interrupted, quantity
from pybatsched.live import DEFAULT_ENDPOINT, keys
from pybatsched.live.access import is_wide
from pybatsched.live.server import ServerOptions, serve
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import MAX_MESSAGE_BYTES, Session

EPILOG: Final = """\
options of a policy, highest priority first: -o KEY=VALUE, Batsim's --sched-cfg (JSON), [policy.NAME] in --config.
--policy FILE.py:CLASS runs the code of that file. -o and --config may name such files, too; --sched-cfg may not.

When a run ends early while Batsim waits for a reply, the reply tells Batsim to abort, so that it does not hang.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `serve`."""
    add = parser.add_argument
    arguments.add_policy(parser, required=True)
    text = "where to wait for Batsim (default %(default)s, this machine only)"
    add("--endpoint", "-s", "--socket-endpoint", default=DEFAULT_ENDPOINT, help=text)
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    arguments.add_timeout(add, "the peer sends nothing for this time after the start")
    arguments.add_first_timeout(add)
    text = f"largest message to accept, in MiB (default {MAX_MESSAGE_BYTES // 2**20})"
    add("--max-message", type=arguments.megabytes, default=MAX_MESSAGE_BYTES, metavar="MIB", help=text)
    add("--fixed-options", action="store_true", help="reject a Batsim that sends options of the policy (--sched-cfg)")
    text = "accept only a Batsim at this IP address; repeatable (default: accept the first peer)"
    add("--allow", action="append", type=arguments.ip_address, default=[], metavar="ADDRESS", help=text)
    text = "accept only peers whose public key is in DIR/clients (see `pybatsched keys`; Batsim needs `relay`)"
    add("--curve", metavar="DIR", help=text)
    add("-v", "--verbose", action="store_true", help="print every message and decision, and tracebacks of plugins")


def run(args: argparse.Namespace) -> int:
    """Serve until the simulation has ended."""
    spec = arguments.policy_spec(args)
    plan = replace(spec.plan(), fixed=args.fixed_options)
    if args.journal is not None:
        arguments.refuse_to_overwrite(args.journal, spec.files())
    if args.allow and not args.endpoint.startswith("tcp://"):
        raise InputError(f"--allow: expected a tcp:// endpoint, found {args.endpoint}; use file permissions for ipc://")
    own_keys = None if args.curve is None else keys.read_server(args.curve)
    process.raise_interrupted()
    watch = print_exchange if args.verbose else None
    session = Session(plan, watch=watch, max_bytes=args.max_message, say=arguments.say)

    def ready(endpoint: str) -> None:
        # Not earlier: a second server that cannot bind the port must not overwrite the journal of the first.
        if args.journal is not None:
            session.record_in(JournalWriter(args.journal))
        if is_wide(endpoint) and not args.allow and own_keys is None:
            arguments.say(
                f"warning: {endpoint} can be reached from other machines, and the first peer is accepted as Batsim; "
                "use --allow ADDRESS or --curve DIR to reject other peers"
            )
        arguments.say(f"policy {args.policy}, waiting for Batsim at {endpoint}")

    try:
        with session.closing_journal():
            allow = tuple(args.allow)
            options = ServerOptions(args.endpoint, args.timeout, args.first_timeout, allow=allow, keys=own_keys)
            serve(session, options, ready, arguments.say)
    except (Interrupted, KeyboardInterrupt) as stop:
        if not session.finished or session.engine.jobs.alive:
            stop.add_note(f"after message {session.n_messages}")
            raise
        # The simulation has ended: there is nothing left to interrupt.
    process.ignore()
    arguments.say(_summary(session))
    promises = session.engine.broken_promises
    if promises:
        from pybatsched.cli.common import run_end  # noqa: PLC0415  rarely needed

        raise BrokenPromiseError("\n".join(run_end.broken(promises)))
    return 0


def _summary(session: Session) -> str:
    jobs = session.engine.jobs
    n_jobs = sum(jobs.n_over.values())
    counts = ", ".join(f"{n} {state.removeprefix('COMPLETED_').lower()}" for state, n in sorted(jobs.n_final.items()))
    text = f"simulation ended at {session.engine.now}: {quantity(n_jobs, 'job')} ({counts})"
    text += f" in {quantity(session.n_messages, 'message')}"
    for n, reason in session.engine.rejections.values():
        why = d.reason_text(reason) or "no reason"
        text += f"\n  {n} rejected: {why}" + (" (the first of them)" if n > 1 else "")
    figures = [f"{name} {value:g}" for name, value in session.engine.figures.items()]
    return "\n  ".join((text, *filter(None, [", ".join(figures)]), *session.engine.remarks))
