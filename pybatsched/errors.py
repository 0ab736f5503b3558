"""All errors that pybatsched explains to the user, with their exit codes.

    PybatschedError                    exit code
    ├── InputError                     2   the user's input: a file, an option, a plugin that cannot be loaded
    │   └── UntrustedFileError         2   a Python file that was named by the peer or a journal, not by the user
    ├── RemoteProtocolError            3   the peer (Batsim) broke the protocol
    ├── PeerLostError                  4   the peer stopped responding or closed its connection
    ├── UnfinishedError                5   the simulation ended with unfinished jobs
    ├── PolicyError                    6   a policy broke a rule or raised an exception
    ├── BrokenPromiseError             7   a promised result does not hold (a replay that differs, …)
    └── NothingCompletedError          8   there were jobs, but none completed: all were rejected or killed

Raise an error where its cause is known. Its text names the file, option or peer, the place, and what was expected.
Any other exception is a bug of pybatsched: exit code 1, with a traceback.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Self

_OURS: Final = frozenset({"pybatsched", "pybatsched_schedulers"})


_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


#: The name of a setting in a text, and perhaps a value; see `setting`.
_SETTING: Final = re.compile("\ue000([^\ue000-\ue002]*)\ue001([^\ue000-\ue002]*)\ue002")


_TOML_PLACE: Final = re.compile(r"(.*?)(?: \(at line (\d+), column (\d+)\))?", re.DOTALL)


def printable(text: str) -> str:
    r"""Escape control characters of untrusted text, so that terminals and files can take it.

    Line ends stay. Surrogates, such as a byte of a file name that is not UTF-8, are escaped as well.

    >>> printable("\x1b[31mred\x07\n")
    '\\x1b[31mred\\x07\n'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def setting(name: str, value: object = "") -> str:
    """Return the name of a setting, and perhaps a value, as a part of an error or a warning.

    A setting is a field of a run spec, such as `stop_at` or `failures.mtbf`. Commands write it as an option, Python as
    a keyword, and campaigns as a key of their file (`spelled`).

    >>> spelled(f"expected {setting('stop_at')}, or {setting('units', 'core')}")
    'expected stop_at, or units core'
    """
    return f"\ue000{name}\ue001{value}\ue002"


def plain_setting(name: str, value: str) -> str:
    """Write a setting by its name in run specs."""
    return f"{name.replace('.', ': ')} {value}".rstrip()


def spelled(text: str, spelling: Callable[[str, str], str] = plain_setting) -> str:
    """Return a text with all its settings in one spelling: a function of their names and values."""
    return _SETTING.sub(lambda found: spelling(found[1], found[2]), text)


def quantity(n: int, noun: str) -> str:
    """Write a count with its noun, in the singular or plural.

    >>> quantity(1, "job"), quantity(0, "job"), quantity(1234, "bad line")
    ('1 job', '0 jobs', '1,234 bad lines')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


#: Values of these types are short as Python code.
_SHORT: Final = (str, bytes, int, float, list, tuple, dict, set, range, type(None))


def with_article(noun: str) -> str:
    """Return a noun with its article."""
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def shown(value: object) -> str:
    """Write a value that was found: as Python code, or its type if it is not a plain value.

    >>> shown("swiss"), shown(Exception())
    ("'swiss'", 'an Exception')
    """
    return f"{value!r:.60}" if isinstance(value, _SHORT) else with_article(type(value).__name__)


def did_you_mean(name: str, known: Iterable[str], names: str) -> str:
    """Return the end of an error about an unknown name: the known name that is most like it, and all `names`.

    >>> did_you_mean("eazy", ["easy", "fcfs"], "; installed: easy, fcfs")
    "; did you mean 'easy'? Installed: easy, fcfs"
    >>> did_you_mean("EASY", ["easy", "fcfs"], "; installed: easy, fcfs")
    "; did you mean 'easy'? Installed: easy, fcfs"
    >>> did_you_mean("gang", ["easy", "fcfs"], "; installed: easy, fcfs")
    '; installed: easy, fcfs'
    """
    import difflib  # noqa: PLC0415  rarely needed

    spellings = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), spellings, 1)
    if not near:
        return names
    text = names.lstrip(":; ")
    return f"; did you mean {spellings[near[0]]!r}? {text[:1].upper()}{text[1:]}".rstrip()


def describe_error(error: BaseException) -> str:
    """Describe an exception with the file and line of the plugin code that caused it, also through a library."""
    text = f"{type(error).__name__}: {error!s}"
    frames = list(traceback.walk_tb(error.__traceback__))
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.lineno}:{error.offset}" if error.offset else str(error.lineno)
        return f"{type(error).__name__}: {error.msg} ({error.filename}: line {where})"
    if not frames:
        return text
    not_plugin = _OURS | sys.stdlib_module_names
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in frames]
    own = [frame for frame, package in zip(frames, packages, strict=True) if package not in not_plugin]
    frame, line = (own or frames)[-1]
    return f"{text} ({frame.f_code.co_filename}: line {line})"


def not_utf8(error: UnicodeDecodeError) -> str:
    r"""Describe a file that is not text in UTF-8.

    >>> not_utf8(UnicodeDecodeError("utf-8", b"abc\xff", 3, 4, "invalid start byte"))
    'expected text in UTF-8, found the byte 0xff at 3'
    """
    return f"expected text in UTF-8, found the byte {error.object[error.start]:#04x} at {error.start:,}"


def toml_problem(error: Exception) -> str:
    """Describe an error of tomllib, with the line and column first.

    >>> toml_problem(ValueError("Invalid value (at line 1, column 8)"))
    'line 1:8: expected TOML: invalid value'
    """
    if isinstance(error, UnicodeDecodeError):
        return not_utf8(error)
    text, line, column = _TOML_PLACE.fullmatch(str(error)).groups()  # type: ignore[union-attr]  # it matches any text
    return f"{f'line {line}:{column}: ' if line else ''}expected TOML: {text[:1].lower()}{text[1:]}"


class PybatschedError(Exception):
    """Base class of errors without a traceback. `is_before_run`: nothing happened yet in the run."""

    exit_code: ClassVar[int] = 1
    is_before_run: bool = False

    def __str__(self) -> str:
        return self.spelled()

    def __format__(self, how: str) -> str:
        """Return the text as a part of another error, for f-strings: its settings are not spelled yet."""
        return format(self.whole(), how)

    @property
    def text(self) -> str:
        """The text without its place or rule, in which settings are not spelled yet."""
        return str(self.args[0]) if self.args else ""

    def whole(self) -> str:
        """Return the whole text, in which settings are not spelled yet."""
        return self.text

    def spelled(self, spelling: Callable[[str, str], str] = plain_setting) -> str:
        """Return the text with all settings in one spelling."""
        return spelled(self.whole(), spelling)


class InputError(PybatschedError):
    """The user's input is wrong. The text names the file or setting and what was expected.

    An error about one setting has its name as `field`, what was `expected`, and what was `found`. One about an unknown
    `option` has the `known` ones.

    >>> str(InputError(field="stop_at", expected="0 seconds or more", found=-1))
    'stop_at: expected 0 seconds or more, found -1'
    """

    exit_code = 2

    def __init__(
        self,
        text: str = "",
        *,
        field: str = "",
        expected: str = "",
        found: object = "",
        option: str = "",
        known: Iterable[str] = (),
    ) -> None:
        self.field, self.option, self.known = field, option, known
        if expected:
            is_known = not isinstance(found, str) or found
            text = f"expected {expected}" + (f", found {shown(found)}" if is_known else "") + text
        super().__init__(f"{setting(field)}: {text}" if field else text)

    @classmethod
    def not_installed(cls, need: str, extra: str) -> Self:
        """Return the error about a missing package: what needs it, and the extra of pybatsched that installs it.

        >>> str(InputError.not_installed("charts need matplotlib", "plot"))
        "charts need matplotlib; run pip install '.[plot]' in a clone of pybatsched"
        """
        return cls(f"{need}; run pip install '.[{extra}]' in a clone of pybatsched")


class NotSimulatedError(InputError):
    """The input is valid, but only the real Batsim can run it."""


class UntrustedFileError(InputError):
    """The peer or a journal, not the user, named a Python file to run."""


class RemoteProtocolError(PybatschedError):
    """The peer broke the protocol: in `field`, a path such as ``events[3].data.job_id``, of a message."""

    exit_code = 3

    def __init__(self, text: str, *, field: str = "", message_number: int | None = None) -> None:
        super().__init__(text)
        self.field = field
        self.message_number = message_number

    def whole(self) -> str:
        """Return the text with its place in the messages."""
        where = []
        if self.message_number is not None:
            where.append(f"message {self.message_number}")
        if self.field:
            where.append(self.field)
        return f"{', '.join(where)}: {self.text}" if where else self.text


class PeerLostError(PybatschedError):
    """The peer did not respond before the time-out, or its connection was closed. The text has the diagnosis."""

    exit_code = 4


class UnfinishedError(PybatschedError):
    """The simulation ended, but some jobs are neither completed, killed nor rejected."""

    exit_code = 5


class PolicyError(PybatschedError):
    """A policy broke a rule or raised an exception. `rule` is the short name of the rule."""

    exit_code = 6

    def __init__(self, text: str, *, policy: str, rule: str, job_id: str = "", history: str = "") -> None:
        super().__init__(text)
        self.policy = policy
        self.rule = rule
        self.job_id = job_id
        self.history = history

    def whole(self) -> str:
        """Return the text with the rule and the history of the job."""
        lines = [f"policy {self.policy} broke the rule '{self.rule}': {self.text}"]
        if self.history:
            lines.append(f"history of job {self.job_id}: {self.history}")
        return "\n".join(lines)


class NotIntegerError(TypeError):
    """A policy used a processor id, or a number of processors, that is not an integer."""


class Interrupted(BaseException):  # not an error, like KeyboardInterrupt
    """A signal requests the process to stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


#: Exceptions that may pass through plugin code but are not the plugin's own.
NOT_THE_PLUGINS = (PybatschedError, Interrupted, KeyboardInterrupt)


class BrokenPromiseError(PybatschedError):
    """A promised result does not hold, such as a replay that differs from its journal."""

    exit_code = 7


class NothingCompletedError(PybatschedError):
    """There were jobs, but none of them completed: all were rejected or killed."""

    exit_code = 8
