"""JSON values of messages: parse them, shorten them for error messages, and read the text `extra_data` of Batsim 5.

`extra_data` holds a user's fields as one JSON object, in files and in messages. It stays a text if it is not an object,
or if it contradicts Batsim's own members. Files and messages use the same functions here, so that a policy finds in a
message what a check found in the file.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

import msgspec

from pybatsched.errors import RemoteProtocolError

EXTRA: Final = "extra_data"
WALLTIME: Final = "walltime"


def parsed(raw: bytes) -> dict[str, Any]:
    """Read a JSON object. Raises RemoteProtocolError for all else. O(size)."""
    try:
        value = msgspec.json.decode(raw)
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"expected JSON in UTF-8; {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        excerpt = repr(raw[:60]) + ("..." if len(raw) > 60 else "")
        raise RemoteProtocolError(f"expected a JSON object; {error}, in {excerpt}") from None
    if type(value) is not dict:
        raise RemoteProtocolError(f"expected a JSON object, found {shown(value)}")
    return value


def number(value: Any) -> float:
    """Read a number that is a double; an integer may be written without a point."""
    if type(value) is float:
        return value
    if type(value) is not int:
        raise TypeError
    return float(value)  # OverflowError is an ArithmeticError, translated by the caller


def shown(value: Any) -> str:
    """Return a JSON value as text for an error message, shortened to 60 characters."""
    if value is None:
        return "null"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def fields_in(extra: Any, own: Container[str] = (), *, has_walltime: bool = True) -> dict[str, Any] | None:
    """Return the fields of an object, or of its JSON text; None for others, and if they contradict `own`. O(size).

    A walltime of -1 means none in Batsim 4, and agrees with a job of Batsim 5 that has none.

    >>> fields_in('{"estimate": 60}'), fields_in("big"), fields_in('{"res": 1}', {"res"})
    ({'estimate': 60}, None, None)
    """
    found = extra if type(extra) is dict else object_in(extra) if type(extra) is str else None
    if found is None:
        return None
    clash = {name for name in found if name in own}
    if clash == {WALLTIME} and not has_walltime and type(found[WALLTIME]) in {int, float} and found[WALLTIME] == -1:
        clash = set()
    return None if clash else found


def object_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a text; None if the text is not one."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is dict else None
