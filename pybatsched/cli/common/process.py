"""The process of the command: its signals, and standard streams that may be full or closed."""

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
    """Let SIGINT and SIGTERM raise `Interrupted`, so that files are closed and peers are notified."""

    def stop(signum: int, _frame: FrameType | None) -> NoReturn:
        raise Interrupted(signum)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def ignore_next_signal() -> None:
    """Ignore the next SIGINT or SIGTERM, in the last wait of a run. The one after it raises `Interrupted`."""

    def ignore_one(_signum: int, _frame: FrameType | None) -> None:
        raise_interrupted()

    signal.signal(signal.SIGINT, ignore_one)
    signal.signal(signal.SIGTERM, ignore_one)


def ignore() -> None:
    """Ignore SIGTERM and SIGINT from now on: the command is done, and its exit code must not change."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore SIGTERM and SIGINT during a short operation that must be completed."""
    before = [(signum, signal.getsignal(signum)) for signum in (signal.SIGINT, signal.SIGTERM)]
    ignore()
    try:
        yield
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)


_SIGNALLED: Final = 128


class _StandardOutput(io.RawIOBase):
    """File descriptor 1, or none if it was closed. Only the first failure raises; later output is dropped.

    So neither the command nor the interpreter at exit fails a second time. A failure is an InputError. If the reader
    of a pipe has closed it, it is `Interrupted` by SIGPIPE, which ends a command without a message.
    """

    def __init__(self, fd: int | None) -> None:
        self.exit_code = 0  # not 0 after a failure
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
    """File descriptor 2. Text that cannot be written is dropped: no run fails because of its messages."""

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


class _SafeTerminal(io.TextIOWrapper):
    """A text stream that escapes control characters on a terminal. Files and pipes get the text unchanged."""

    def write(self, text: str, /) -> int:
        if self.isatty():
            is_ours = text.startswith("\r") and text.endswith("\x1b[K")  # a progress line, which replaces the last one
            super().write(f"\r{printable(text[1:-3])}\x1b[K" if is_ours else printable(text))
        else:
            super().write(text)
        return len(text)


def _open_standard_error() -> None:
    """Replace standard error by a stream that is always open, so that no other file gets descriptor 2."""
    given = sys.stderr
    if given is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:
            os.dup2(nowhere, 2)
            os.close(nowhere)
        os.set_inheritable(2, True)
    encoding = given.encoding if given else "utf-8"
    buffer = io.BufferedWriter(_StandardError())
    sys.stderr = _SafeTerminal(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


def run(may_be_interrupted: bool = True) -> int:
    """Run the command line of this process and return its exit code: 2 if output was lost, 141 for a pipe."""
    _open_standard_error()
    given = sys.stdout
    raw = _StandardOutput(None if given is None else given.fileno())
    sys.stdout = _SafeTerminal(
        io.BufferedWriter(raw),
        encoding=given.encoding if given else "utf-8",
        # A character that the locale does not have must not end the command.
        errors=given.errors if given and given.errors != "strict" else "backslashreplace",
        line_buffering=raw.isatty(),
    )
    try:
        code = cli.main(begin=_interruptible if may_be_interrupted else None)
        ignore()
    except SystemExit as stop:  # argparse has printed its message
        code = stop.code if isinstance(stop.code, int) else 0
        ignore()
    except InputError as error:  # a help text that is longer than the buffer could not be written
        cli.print_error(error.whole())
        code = error.exit_code
        ignore()
    except (Interrupted, KeyboardInterrupt) as stop:  # after the end of the command
        ignore()
        code = cli.interrupted(stop)
    try:
        sys.stdout.flush()
    except InputError as error:
        if code < _SIGNALLED:
            cli.print_error(error.whole())
    except Interrupted:
        pass  # the reader has closed the pipe
    return raw.exit_code if raw.exit_code and code < _SIGNALLED else code


def _interruptible() -> None:
    """Let SIGINT raise KeyboardInterrupt again: from here on there may be files to close."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
