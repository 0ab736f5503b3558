"""The pybatsched command: one module a sub-command, and the one place that turns errors into exit codes."""

from __future__ import annotations

import argparse
import errno
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from pybatsched import __version__
from pybatsched.errors import InputError, Interrupted, PybatschedError

#: The commands in the order of the help, with their summaries: to list commands loads none of them.
_COMMANDS: Final = {
    "serve": "Serve a policy to Batsim on a ZeroMQ endpoint (the default command).",
    "simulate": "Simulate a policy on a workload with the embedded simulator: no Batsim needed.",
    "run": "Run a policy with a real Batsim: both are started, watched and ended together.",
    "batsim": "Batsim's own command line, in front of the embedded simulator: for programs that start a batsim.",
    "keys": "Make keys, by which a server and its peer know each other (--curve).",
    "relay": "Stand beside a Batsim, which has no keys, and speak for it to a scheduler that wants some (--curve).",
    "workload": "Check, convert, cut, merge, generate and describe workloads.",
    "platform": "List, show, generate and check platforms.",
    "campaign": "Run many simulations described in one file, stop and resume them, and put the results into one table.",
    "reproduce": "Run a published study again, and say of each number whether it holds.",
    "traces": "Get logs from the Parallel Workloads Archive, checked by their digests.",
    "metrics": "Print the metrics of runs: of all jobs, by class, or of two runs job by job.",
    "report": "Write one self-contained HTML page about runs, or about a campaign.",
    "plot": "Draw a single figure of runs or of a campaign, as SVG, PDF or PNG.",
    "compare": "Compare two runs by their summaries, and fail if the second is worse than you allow.",
    "policies": "List the installed policies, or show one with its options.",
    "replay": "Run a journal's policy again and report the first difference.",
    "explain": "Tell the story of a job from a journal: why it waited, started, was requeued and ended.",
}

#: Modules of this package that are not named as their command.
_MODULES: Final = {
    "keys": "curve.keys",
    "relay": "curve.relay",
    "replay": "journal.replay",
    "explain": "journal.explain",
}

#: Why a path that somebody has named may lead nowhere, whichever call finds out first: it is no bug of ours.
_NO_WAY_THERE: Final = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})

_DESCRIPTION: Final = """\
A scheduler for the Batsim simulator, and a simulator of its own. Start it and point Batsim (3.1 to 4.2, or 5) at
the same endpoint, or let `pybatsched simulate` play Batsim's part.

examples:
  pybatsched --policy easy                          serve EASY backfilling on tcp://127.0.0.1:28000
  pybatsched --policy conservative -o compression=false --journal run.pbj
  pybatsched --policy my_policy.py:MyPolicy         serve a policy of your own (runs the code of that file)
  pybatsched simulate --procs 128 -w log.swf.gz --policy easy -e out/easy          no Batsim needed
  pybatsched run -p curie-node -w w.json --policy easy -e out/easy                 with a real Batsim
  pybatsched batsim -p platform.xml -w w.json       Batsim's command line; --link DIR makes it a `batsim`
  pybatsched workload lint log.swf.gz               say what is odd about a log; also: convert, inject, stats
  pybatsched campaign run study.toml                a whole study: policies, options, workloads, seeds
  pybatsched report out/fcfs out/easy               a page to look at; also: metrics, plot
  pybatsched platform list                          machines that are known by name; also: show, generate, check
  pybatsched compare out/fcfs out/easy --fail-if 'mean_wait_s > +5%'              in a CI job, say
  pybatsched policies easy                          show a policy's options
  pybatsched replay run.pbj                         run a recorded simulation again and compare
  pybatsched explain run.pbj w0!42                  tell why a job started when it did
"""

_EXIT_CODES: Final = """\
exit codes:
  0 all well; 1 a bug of ours; 2 usage, input or plugin; 3 the peer broke the protocol; 4 the peer fell silent;
  5 jobs left unfinished; 6 a policy broke a rule or raised; 7 a promise did not hold; 130/141/143 signals
"""


def _build() -> str:
    """Tell what is at work: all that can be compiled, the parts that are written in C alone, or plain modules."""
    if find_spec("pybatsched.policies._profile") is None:
        return "pure Python"
    spec = find_spec("pybatsched.core.cluster")
    return "parts in C" if spec is None or str(spec.origin).endswith(".py") else "compiled"


#: Commands that read their command line themselves, all of it.
_WITH_OWN_OPTIONS: Final = frozenset({"batsim"})


def module_of(command: str) -> ModuleType:
    """Import the module of a command."""
    return import_module(f"pybatsched.cli.{_MODULES.get(command, command)}")


class _Parser(argparse.ArgumentParser):
    """A parser that reports a wrong option itself: with the usage of the command below which it was given.

    Options must be written out: an abbreviation may mean another option in a later version. The parsers of commands
    below this one are of the same class.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from pybatsched.cli.common.arguments import hints  # noqa: PLC0415  a list of commands need not load it

            self.error("; ".join([f"unrecognized arguments: {' '.join(unknown)}", *hints(options, unknown)]))
        return options, unknown


def build_parser(loaded: Collection[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """Make the parser, with the options of these commands; the others are known by their names.

    The modules of these are imported: most of a second for all of them.
    """
    parser = _Parser(
        prog="pybatsched",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pybatsched {__version__} ({_build()})")
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        if name not in loaded or name in _WITH_OWN_OPTIONS:
            choices.add_parser(name, help=summary)
            continue
        module = module_of(name)
        sub = choices.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def tell(text: str) -> None:
    """Say on standard error what has ended a command."""
    print(f"pybatsched: {text}", file=sys.stderr)


def interrupted(stop: Interrupted | KeyboardInterrupt) -> int:
    """Say in one line that a signal has ended a command, with what was noted on the way out. Gives the exit code.

    SIGPIPE means that the reader of standard output has gone: nothing is said, as by other tools.
    """
    signum = stop.signum if isinstance(stop, Interrupted) else signal.SIGINT
    if signum != signal.SIGPIPE:
        tell("; ".join([f"interrupted by {Interrupted(signum)}", *getattr(stop, "__notes__", ())]))
    return 128 + signum


def main(argv: Sequence[str] | None = None, begin: Callable[[], None] | None = None) -> int:
    """Run the command line and give the exit code. Without a command, options mean `serve`.

    `begin` is called when all is loaded and read that the command line asks for.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if any("\0" in word for word in args):  # no shell can say that, but who calls us from Python can
        tell(f"argument {next(word for word in args if chr(0) in word)!r}: no name has a NUL character in it")
        return InputError.exit_code
    if args and args[0].startswith("-") and args[0] not in {"-h", "--help", "--version"}:
        args.insert(0, "serve")  # `pybatsched --policy easy` is the main job
    for_batsim: list[str] = []
    if args[:1] == ["run"] and "--" in args:
        at = args.index("--")
        args, for_batsim = args[:at], args[at + 1 :]
    if args[:1] and args[0] in _WITH_OWN_OPTIONS:
        module = module_of(args[0])
        options = argparse.Namespace(run=module.run, arguments=args[1:])
    else:
        options = build_parser(args[:1]).parse_args(args)
    options.for_batsim = for_batsim
    try:
        if begin is not None:
            begin()
        return int(options.run(options))
    except PybatschedError as error:
        tell(str(error))
        if getattr(options, "verbose", 0) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return error.exit_code
    except (Interrupted, KeyboardInterrupt) as stop:
        return interrupted(stop)
    except Exception as error:  # noqa: BLE001  the last border: everything else is our own fault
        if isinstance(error, OSError) and error.errno in _NO_WAY_THERE and error.filename is not None:
            tell(f"{error.filename}: {error.strerror}")
            return InputError.exit_code
        traceback.print_exc()
        print(
            "pybatsched: this is a bug of pybatsched. Please report the lines above with the command you gave, "
            f"your version (pybatsched {__version__}) and, if you can, the journal.",
            file=sys.stderr,
        )
        return 1
