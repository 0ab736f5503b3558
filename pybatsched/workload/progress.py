"""Telling whoever waits how far long work is, without its doer knowing who that is.

A command listens (`heard_by`); what reads or makes jobs says which part of the work it does (`part`) and how far that
is (`tell`, or `counted` items). While nobody listens nothing is told, and it costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

_EVERY: Final = 4096  # items between two words
_HEAR: ContextVar[Callable[[float], None] | None] = ContextVar("hear", default=None)
_PART: ContextVar[tuple[float, float] | None] = ContextVar("part", default=None)


@contextmanager
def heard_by(hear: Callable[[float], None]) -> Iterator[None]:
    """Let somebody hear how far what is done meanwhile is, from 0 to 1."""
    token = _HEAR.set(hear)
    try:
        yield
    finally:
        _HEAR.reset(token)


@contextmanager
def part(begin: float, end: float) -> Iterator[None]:
    """Say that what is done meanwhile is this part of the whole; outside of parts nothing is told."""
    token = _PART.set((begin, end))
    try:
        yield
    finally:
        _PART.reset(token)


def is_heard() -> bool:
    """Tell whether somebody listens to what is done now."""
    return _HEAR.get() is not None and _PART.get() is not None


def tell(share: float) -> None:
    """Say how far the part is that is being done, from 0 to 1."""
    hear, place = _HEAR.get(), _PART.get()
    if hear is not None and place is not None:
        begin, end = place
        hear(begin + min(share, 1.0) * (end - begin))


def counted(items: Iterable[T], n: int) -> Iterable[T]:
    """Give n items as they are, and tell how far they are. If nobody listens, they are not touched."""
    return _counted(items, n) if is_heard() else items


def _counted(items: Iterable[T], n: int) -> Iterator[T]:
    for i, item in enumerate(items):
        if not i % _EVERY:
            tell(i / n)
        yield item
