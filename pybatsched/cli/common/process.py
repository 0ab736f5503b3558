"""The command as a process of its own: its signals, and standard streams that may be full or closed.

What `pybatsched.cli.main` does is the same in any process; what is here holds for the one that was started for it.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from pybatsched import cli
from pybatsched.errors import InputError, Interrupted, printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def raise_interrupted() -> None:
    """Let SIGINT and SIGTERM raise `Interrupted`, so that files are closed and peers are told."""

    def stop(signum: int, _frame: FrameType | None) -> NoReturn:
        raise Interrupted(signum)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def overlook_one() -> None:
    """Let the next SIGINT or SIGTERM do nothing, and the one after it raise `Interrupted`.

    For a last wait: who stops everything because somebody else is through must not disturb it, who wants to end it can.
    """

    def overlook(_signum: int, _frame: FrameType | None) -> None:
        raise_interrupted()

    signal.signal(signal.SIGINT, overlook)
    signal.signal(signal.SIGTERM, overlook)


def ignore() -> None:
    """Let SIGTERM and SIGINT do nothing any more: all is done, and how it went must not change on the way out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let SIGTERM and SIGINT do nothing while something takes a moment that must not be left half done."""
    before = [(signum, signal.getsignal(signum)) for signum in (signal.SIGINT, signal.SIGTERM)]
    ignore()
    try:
        yield
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)


_SIGNALLED: Final = 128


class _StandardOutput(io.RawIOBase):
    """File descriptor 1, or none if it was closed. Only the first failure raises; what is written later is dropped.

    So neither a command nor the interpreter on its way out stumbles over it a second time. A failure is an InputError.
    If the reader of a pipe has gone, it is `Interrupted` by SIGPIPE, which ends a command without a message.
    """

    def __init__(self, fd: int | None) -> None:
        self.exit_code = 0  # another one after a failure
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._fd is None:
            raise OSError("standard output is closed")
        return self._fd

    def isatty(self) -> bool:
        return self._fd is not None and os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        if self.exit_code:
            return memoryview(data).nbytes
        try:
            return os.write(self.fileno(), data)
        except BrokenPipeError:
            self.exit_code = _SIGNALLED + signal.SIGPIPE
            raise Interrupted(signal.SIGPIPE) from None
        except OSError as error:
            self.exit_code = InputError.exit_code
            why = error.strerror or "it is closed"
            raise InputError(f"standard output cannot be written: {why}") from None


class _StandardError(io.RawIOBase):
    """File descriptor 2. What cannot be written there is lost: no run ends because nobody hears a word of it."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)

    def write(self, data: ReadableBuffer, /) -> int:
        with contextlib.suppress(OSError):
            return os.write(2, data)
        return memoryview(data).nbytes


class _Shown(io.TextIOWrapper):
    """Text for people. What is not for print is escaped on a terminal, which would take it for orders to itself.

    Names and reasons come from workloads, journals and peers. A file or a pipe gets all as it is.
    """

    def write(self, text: str, /) -> int:
        if self.isatty():
            is_ours = text.startswith("\r") and text.endswith("\x1b[K")  # a line of progress, written over the last one
            super().write(f"\r{printable(text[1:-3])}\x1b[K" if is_ours else printable(text))
        else:
            super().write(text)
        return len(text)


def _hear_all() -> None:
    """Put a standard error in its place that is always there, so that no file of ours gets its number either."""
    given = sys.stderr
    if given is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:
            os.dup2(nowhere, 2)
            os.close(nowhere)
        os.set_inheritable(2, True)
    encoding = given.encoding if given else "utf-8"
    buffer = io.BufferedWriter(_StandardError())
    sys.stderr = _Shown(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


def run(may_be_interrupted: bool = True) -> int:
    """Run the command line of this process and give its exit code. `pybatsched.__main__` has set a handler for SIGINT.

    A command whose output was lost ends with 2, or with 141 if the reader of a pipe has gone, unless a signal ended it.
    """
    _hear_all()
    given = sys.stdout
    raw = _StandardOutput(None if given is None else given.fileno())
    sys.stdout = _Shown(
        io.BufferedWriter(raw),
        encoding=given.encoding if given else "utf-8",
        # A character that the locale does not have is no reason to end.
        errors=given.errors if given and given.errors != "strict" else "backslashreplace",
        line_buffering=raw.isatty(),
    )
    try:
        code = cli.main(begin=_interruptible if may_be_interrupted else None)
        ignore()
    except SystemExit as stop:  # argparse has said what there is to say
        code = stop.code if isinstance(stop.code, int) else 0
        ignore()
    except (Interrupted, KeyboardInterrupt) as stop:  # between the command's last word and ours
        ignore()
        code = cli.interrupted(stop)
    try:
        sys.stdout.flush()
    except InputError as error:
        if code < _SIGNALLED:
            cli.tell(str(error))
    except Interrupted:
        pass  # the reader has gone
    return raw.exit_code if raw.exit_code and code < _SIGNALLED else code


def _interruptible() -> None:
    """Let SIGINT raise KeyboardInterrupt again: from here on there may be something that must be put away."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
