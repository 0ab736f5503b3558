"""Warnings at the line of the user's code, and deprecated names: each works until the next major version."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

#: The version in which names that are deprecated now stop to work.
REMOVED_IN = "2.0"
#: Code of this package and of the import system. Warnings show lines of other code.
_NOT_THE_USER = (os.path.dirname(__file__) + os.sep, "<frozen ")  # noqa: PTH120  pathlib is slow to import


class DeprecatedNameWarning(FutureWarning):
    """The user has given a deprecated name. Python shows it by default; commands print it as a message."""


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Show a warning at the line of the user's code that called this package."""
    frame = sys._getframe()  # noqa: SLF001  as warnings.warn does
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        frame = frame.f_back
    shown_before = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry=shown_before)


def deprecated(old: str, new: str, since: str) -> None:
    """Warn that the user has given an old name, and name the new one."""
    text = f"{old} is deprecated since version {since} and works until version {REMOVED_IN}: use {new}"
    warn_user(text, DeprecatedNameWarning)


def deprecated_attribute(old: str, new: str, since: str, value: Callable[[Any], Any]) -> Any:
    """Return a property of the old name. Names are shown as ``job.name``; `value` computes it from the object."""

    def get(owner: Any) -> Any:
        deprecated(old, new, since)
        return value(owner)

    return property(get, doc=f"Deprecated since version {since}: use `{new}`.")
