"""How many examples hypothesis tries: the numbers in the tests, times PYBATSCHED_EXAMPLES."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(n: int) -> settings:
    """Try n examples, or a multiple where somebody has the time."""
    return settings(max_examples=n * int(os.environ.get("PYBATSCHED_EXAMPLES", "1")))
