"""Values that an object works out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class remembered(Generic[T]):  # noqa: N801  used as a decorator, as functools.cached_property is
    """A property that is worked out when it is first asked for, and then lies in the object's dictionary.

    `functools.cached_property` takes a lock for that before Python 3.12, which costs more than what jobs remember.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> remembered[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> remembered[T] | T:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work_out(owner)
        return value
