"""How many examples hypothesis tries: the numbers in the tests, times PYBATSCHED_EXAMPLES."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(n: int) -> settings:
    """Try n examples, times PYBATSCHED_EXAMPLES."""
    return settings(max_examples=max(int(n * float(os.environ.get("PYBATSCHED_EXAMPLES", "1"))), 1))
