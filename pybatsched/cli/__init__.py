"""The pybatsched command. Each sub-command has a module. `main` turns errors into exit codes."""

from __future__ import annotations

import argparse
import errno
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pybatsched.deprecations import DeprecatedNameWarning, deprecated
from pybatsched.errors import InputError, Interrupted, PybatschedError, spelled
from pybatsched.version import __version__

#: The commands in the order of the help, with their summaries. Listing commands imports none of their modules.
_COMMANDS: Final = {
    "serve": "Serve a policy to Batsim on a ZeroMQ endpoint (the default command).",
    "simulate": "Simulate a policy on a workload with the embedded simulator: no Batsim needed.",
    "run": "Run a policy with a real Batsim: start both, supervise them and stop both together.",
    "batsim": "Run the embedded simulator with Batsim's command line, for programs that start Batsim.",
    "keys": "Generate CURVE keys, by which a server and its peer authenticate each other (--curve).",
    "relay": "Connect a Batsim, which has no keys, to a scheduler that requires them (--curve).",
    "workload": "Check, convert, cut, merge, generate and describe workloads.",
    "platform": "List, show, generate and check platforms.",
    "campaign": "Run many simulations described in one file, stop and resume them, and put the results into one table.",
    "reproduce": "Run a published study again and check each of its numbers.",
    "traces": "Download logs of the Parallel Workloads Archive, and print the command that exports a log of Slurm.",
    "metrics": "Print the metrics of runs: of all jobs, by class, or of two runs job by job.",
    "report": "Write one self-contained HTML page about runs, or about a campaign.",
    "plot": "Draw a single chart of runs or of a campaign, as SVG, PDF or PNG.",
    "compare": "Compare two runs by their summaries, or two sets of runs, and fail if the second meets a condition.",
    "policies": "List the installed policies, or show one with its options.",
    "replay": "Run a journal's policy again and report the first difference.",
    "explain": "Show the history of a job from a journal: why it waited, started, was requeued and ended.",
    "cite": "Print what to cite in BibTeX: pybatsched, and what runs used, such as logs, machines and policies.",
}

#: Commands whose module has another name.
_MODULES: Final = {
    "keys": "curve.keys",
    "relay": "curve.relay",
    "replay": "journal.replay",
    "explain": "journal.explain",
}

#: Errors of a path that the user has named. They are input errors, whichever call raises them.
_PATH_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})

_DESCRIPTION: Final = """\
A scheduler for the Batsim simulator, with an embedded simulator. Start it and start Batsim (3.1 to 4.2, or 5) with
the same endpoint, or use `pybatsched simulate`, which needs no Batsim.

examples:
  pybatsched --policy easy                          serve EASY backfilling on tcp://127.0.0.1:28000
  pybatsched --policy conservative -o compression=false --journal run.pbj
  pybatsched --policy my_policy.py:MyPolicy         serve your own policy (runs the code of that file)
  pybatsched simulate --procs 128 -w log.swf.gz --policy easy -e out/easy          no Batsim needed
  pybatsched run -p intrepid-node -w w.json --policy easy -e out/easy              with a real Batsim
  pybatsched batsim -p platform.xml -w w.json       Batsim's command line; --link DIR writes an executable `batsim`
  pybatsched workload lint log.swf.gz               find problems in a log; also: convert, inject, stats
  pybatsched campaign run study.toml                a whole study: policies, options, workloads, seeds
  pybatsched report out/fcfs out/easy               an HTML page; also: metrics, plot
  pybatsched platform list                          list the known machines; also: show, generate, check
  pybatsched compare out/fcfs out/easy --fail-if 'mean_wait_s > +5%'              for example in a CI job
  pybatsched policies easy                          show a policy's options
  pybatsched replay run.pbj                         run the policy of a journal again and compare
  pybatsched explain run.pbj w0!42                  explain why a job started when it did
  pybatsched cite out/easy                          what to cite for a run
"""

_EXIT_CODES: Final = """\
exit codes:
  0 success; 1 a bug of pybatsched; 2 an error in usage, input or a plugin; 3 the peer broke the protocol; 4 the peer
  does not respond; 5 unfinished jobs; 6 a policy broke a rule or raised an exception; 7 a check failed; 8 no job
  completed; 130/141/143 signals
"""


def _build() -> str:
    """Return the kind of build: with the parts in C, or pure Python."""
    folder = Path(__file__).parents[1]
    is_in_c = any((folder / f"policies/_profile{suffix}").exists() for suffix in EXTENSION_SUFFIXES)
    return "compiled" if is_in_c else "pure Python"


#: Commands that parse their whole command line themselves.
_WITH_OWN_PARSER: Final = frozenset({"batsim"})


def module_of(command: str) -> ModuleType:
    """Import the module of a command."""
    return import_module(f"pybatsched.cli.{_MODULES.get(command, command)}")


class _Parser(argparse.ArgumentParser):
    """A parser that reports an unknown option with the usage of its own sub-command. No abbreviations."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        for one in self._actions:
            if hasattr(one, "replaced_by") and any(word.partition("=")[0] in one.option_strings for word in args):
                deprecated(one.option_strings[0], *one.replaced_by)
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from pybatsched.cli.common.arguments import hints  # noqa: PLC0415  slow, and rarely needed

            known = [name for one in self._actions if one.help != argparse.SUPPRESS for name in one.option_strings]
            self.error("; ".join([f"unrecognized arguments: {' '.join(unknown)}", *hints(options, unknown, known)]))
        return options, unknown


def build_parser(loaded: Collection[str] = tuple(_COMMANDS)) -> argparse.ArgumentParser:
    """Build the parser with the options of the `loaded` commands; of all, by name, for an unknown command."""
    parser = _Parser(
        prog="pybatsched",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pybatsched {__version__} ({_build()})")
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    are_known = bool(loaded) and all(name in _COMMANDS for name in loaded)
    for name, summary in _COMMANDS.items():
        if name not in loaded and are_known:
            continue
        if name not in loaded or name in _WITH_OWN_PARSER:
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


def print_error(text: str) -> None:
    """Print on standard error why a command has ended."""
    from pybatsched.cli.common.arguments import as_option  # noqa: PLC0415  only for errors

    print(f"pybatsched: {spelled(text, as_option)}", file=sys.stderr)


def interrupted(stop: Interrupted | KeyboardInterrupt) -> int:
    """Print in one line that a signal has ended a command; nothing for SIGPIPE. Returns the exit code."""
    signum = stop.signum if isinstance(stop, Interrupted) else signal.SIGINT
    if signum != signal.SIGPIPE:
        print_error("; ".join([f"interrupted by {Interrupted(signum)}", *getattr(stop, "__notes__", ())]))
    return 128 + signum


def main(argv: Sequence[str] | None = None, begin: Callable[[], None] | None = None) -> int:
    """Run the command line and return the exit code. Each deprecated name is reported once, on standard error."""
    reported: set[str] = set()
    show = warnings.showwarning

    def report(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if category is not DeprecatedNameWarning:
            show(message, category, *where, **more)
        elif (text := str(message)) not in reported:
            reported.add(text)
            print_error(f"warning: {text}")

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("always", DeprecatedNameWarning)
        warnings.showwarning = report
        return _main(argv, begin)


def _main(argv: Sequence[str] | None, begin: Callable[[], None] | None) -> int:
    """Run the command line. Without a command, options are those of `serve`."""
    args = list(sys.argv[1:] if argv is None else argv)
    if any("\0" in word for word in args):  # impossible in a shell, but not for a caller in Python
        found = next(word for word in args if chr(0) in word)
        print_error(f"argument {found!r}: expected text without NUL characters")
        return InputError.exit_code
    if args and args[0].startswith("-") and args[0] not in {"-h", "--help", "--version"}:
        args.insert(0, "serve")  # the default command: `pybatsched --policy easy`
    for_batsim: list[str] = []
    if args[:1] == ["run"] and "--" in args:
        at = args.index("--")
        args, for_batsim = args[:at], args[at + 1 :]
    if args[:1] and args[0] in _WITH_OWN_PARSER:
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
        print_error(error.whole())
        if getattr(options, "verbose", 0) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return error.exit_code
    except (Interrupted, KeyboardInterrupt) as stop:
        return interrupted(stop)
    except Exception as error:  # noqa: BLE001  any other exception is a bug of pybatsched
        if isinstance(error, OSError) and error.errno in _PATH_ERRORS and error.filename is not None:
            print_error(f"{error.filename}: {error.strerror}")
            return InputError.exit_code
        traceback.print_exc()
        print(
            "pybatsched: this is a bug of pybatsched. Please report the lines above with your command line, "
            f"your version (pybatsched {__version__}) and, if possible, the journal.",
            file=sys.stderr,
        )
        return 1
