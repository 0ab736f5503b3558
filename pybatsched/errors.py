"""What can go wrong, and whose fault it is.

    PybatschedError                    exit code
    ├── InputError                     2   the user's input: a file, an option, a plugin that does not load
    │   └── UntrustedFileError         2   a Python file that somebody else than the owner has named
    ├── RemoteProtocolError            3   the peer (Batsim) sent something it must not send
    ├── PeerLostError                  4   the peer fell silent or vanished
    ├── UnfinishedError                5   the simulation ended with jobs left over
    ├── PolicyError                    6   a policy asked for something illegal, or raised
    └── BrokenPromiseError             7   something that should hold does not (a replay that differs, …)

Rule of the house: raise the error where the blame is known, and say who, where and what was expected.
Everything else that escapes is a bug of ours: exit code 1, with a traceback.
"""

from __future__ import annotations

import re
import sys
import traceback
from typing import ClassVar, Final

_OURS: Final = frozenset({"pybatsched", "pybatsched_schedulers"})


_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""Write what a stranger says so that a terminal takes none of it for an order, and any file can hold it.

    Lines stay lines. Half a character, as a byte of a file's name that is no UTF-8, is written out as well.

    >>> printable("\x1b[31mred\x07\n")
    '\\x1b[31mred\\x07\n'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def quantity(n: int, noun: str) -> str:
    """Write a number of things in words.

    >>> quantity(1, "job"), quantity(0, "job"), quantity(1234, "bad line")
    ('1 job', '0 jobs', '1,234 bad lines')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def told(error: BaseException) -> str:
    """Say what was raised, and the file and line of the plugin's own code that led to it.

    Where a plugin calls our code or Python's own and that raises, the line with the call is the one to look at.
    """
    text = f"{type(error).__name__}: {error}"
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or isinstance(error, SyntaxError):  # which tells its own place
        return text
    strange = _OURS | sys.stdlib_module_names
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in frames]
    own = [place for place, package in zip(frames, packages, strict=True) if package not in strange]
    frame, line = (own or frames)[-1]
    return f"{text} ({frame.f_code.co_filename}, line {line})"


class PybatschedError(Exception):
    """Base of all errors that are explained to the user without a traceback."""

    exit_code: ClassVar[int] = 1


class InputError(PybatschedError):
    """The user's input is wrong; the text names the file or option and what was expected."""

    exit_code = 2


class NotSimulatedError(InputError):
    """The input is right, but it takes the real Batsim."""


class UntrustedFileError(InputError):
    """A Python file was to be run that its owner did not name: the peer did, or a journal."""


class RemoteProtocolError(PybatschedError):
    """The peer broke the protocol.

    `field` is the path of the culprit inside the message, as in ``events[3].data.job_id``;
    `message_number` counts the peer's messages from 1 and is filled in by the session, which does the counting.
    """

    exit_code = 3

    def __init__(self, text: str, *, field: str = "", message_number: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.field = field
        self.message_number = message_number

    def __str__(self) -> str:
        where = []
        if self.message_number is not None:
            where.append(f"message {self.message_number}")
        if self.field:
            where.append(self.field)
        return f"{', '.join(where)}: {self.text}" if where else self.text


class PeerLostError(PybatschedError):
    """The peer fell silent past the time-out, or its connection is gone; the text is a diagnosis."""

    exit_code = 4


class UnfinishedError(PybatschedError):
    """The simulation is over but some jobs are neither completed, killed nor rejected."""

    exit_code = 5


class PolicyError(PybatschedError):
    """A policy broke a rule or raised an exception.

    `rule` is a short name of the broken rule (see `pybatsched.core.rules`), `job_id` and `story` tell about the job
    the decision was for, where there is one.
    """

    exit_code = 6

    def __init__(self, text: str, *, policy: str, rule: str, job_id: str = "", story: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.policy = policy
        self.rule = rule
        self.job_id = job_id
        self.story = story

    def __str__(self) -> str:
        lines = [f"policy {self.policy} broke the rule '{self.rule}': {self.text}"]
        if self.story:
            lines.append(f"the story of job {self.job_id} so far: {self.story}")
        return "\n".join(lines)


class NotIntegerError(TypeError):
    """A policy gave a processor id, or a number of processors, that is no integer."""


class Interrupted(BaseException):  # like KeyboardInterrupt: not an error of anybody
    """A signal asks the process to stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


#: What passes through a plugin's code without being the plugin's own exception.
NOT_THE_PLUGINS = (PybatschedError, Interrupted, KeyboardInterrupt)


class BrokenPromiseError(PybatschedError):
    """A result that was promised did not come about, as a replay that differs from its recording."""

    exit_code = 7
