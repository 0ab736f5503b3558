"""JSON as peers send it, whatever the protocol: read, with an answer for everything that is none, and shown briefly."""

from __future__ import annotations

from typing import Any

import msgspec

from pybatsched.errors import RemoteProtocolError


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
        raise RemoteProtocolError(f"expected a JSON object, got {shown(value)}")
    return value


def number(value: Any) -> float:
    """Read a number that is a double; an integer may be written without a point."""
    if type(value) is float:
        return value
    if type(value) is not int:
        raise TypeError
    return float(value)  # OverflowError is an ArithmeticError, translated by the caller


def shown(value: Any) -> str:
    """Give a short picture of a JSON value for an error message."""
    if value is None:
        return "null"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
