"""The settings of runs as keys of a campaign's file."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from pybatsched.errors import plain_setting
from pybatsched.runs.spec import RECORDS
from pybatsched.settings import Checked

_KEYS: Final = {name: about.alias for one in RECORDS for name, about in one.settings().items() if about.alias}


def as_key(name: str, value: str = "") -> str:
    """Write a setting as a key of a campaign's file, and perhaps its value.

    >>> as_key("begin", "7"), as_key("stop_at")
    ('from 7', 'stop_at')
    """
    return plain_setting(_KEYS.get(name, name), value)


def keys_of(record: type[Checked], apart: Container[str] = ()) -> list[str]:
    """Return the keys of all settings of a record, except some."""
    return [as_key(name) for name in record.settings() if name not in apart]
