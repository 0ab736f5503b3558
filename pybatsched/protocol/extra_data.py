"""The text `extra_data` of Batsim 5: a user's fields as one JSON object, in files and in messages alike.

What is no object, or would say something else of what Batsim says itself, stays a text. Files and messages must agree
on which is which, or a policy would not find in a message what a check has found in the file.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

import msgspec

EXTRA: Final = "extra_data"
WALLTIME: Final = "walltime"


def fields_in(extra: Any, own: Container[str] = (), *, has_walltime: bool = True) -> dict[str, Any] | None:
    """Give the fields of an object, or of a text that is one; None if they cannot stand beside Batsim's `own`. O(size).

    A walltime of -1 is how Batsim 4 says that there is none, and stands beside a job of Batsim 5 that has none.

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
    """Read a text that is a JSON object with nothing in it that could not be written again; None for all else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is dict else None
