"""Making very many records at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let nobody look for garbage meanwhile: what is made in great numbers here is kept, and is in no circles.

    Python looks through all objects again and again while their number grows, which is an eighth of the time that it
    takes to make a large log ready for a simulation.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
