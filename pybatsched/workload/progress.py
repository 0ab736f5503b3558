"""Report the progress of parts of long work, such as reading a log, to the callback of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

_EVERY: Final = 4096  # items between two reports
_CALLBACK: ContextVar[Callable[[float], None] | None] = ContextVar("callback", default=None)
_PART: ContextVar[tuple[float, float] | None] = ContextVar("part", default=None)


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable inside the `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def report_to(callback: Callable[[float], None]) -> AbstractContextManager[None]:
    """Report progress, from 0 to 1, to a callback inside the `with` block."""
    return _set(_CALLBACK, callback)


def part(begin: float, end: float) -> AbstractContextManager[None]:
    """Declare that the `with` block does this part of the whole work. Nothing is reported outside of parts."""
    return _set(_PART, (begin, end))


def paused() -> AbstractContextManager[None]:
    """Report no progress inside the `with` block: only the start of a file is read there."""
    return _set(_PART, None)


def share(number: int, n: int) -> AbstractContextManager[None]:
    """Declare that the `with` block does one of n equal shares of the current part, counted from 0."""
    current = _PART.get()
    if current is None:
        return nullcontext()
    begin, end = current
    return part(begin + (end - begin) * number / n, begin + (end - begin) * (number + 1) / n)


def is_reporting() -> bool:
    """Return whether there is a callback and a current part."""
    return _CALLBACK.get() is not None and _PART.get() is not None


def report(share: float) -> None:
    """Report the progress of the current part, from 0 to 1."""
    callback, current = _CALLBACK.get(), _PART.get()
    if callback is not None and current is not None:
        begin, end = current
        callback(begin + min(share, 1.0) * (end - begin))


def with_progress(items: Iterable[T], n: int) -> Iterable[T]:
    """Return n items, and report the progress of iterating them. Without a callback, the iterable is not wrapped."""
    return _with_progress(items, n) if is_reporting() else items


def _with_progress(items: Iterable[T], n: int) -> Iterator[T]:
    for i, item in enumerate(items):
        if not i % _EVERY:
            report(i / n)
        yield item
