"""Worker processes of campaigns: what they share a machine with."""

from __future__ import annotations

import base64
import pickle
import sys
from typing import Any

import pytest

from pybatsched.campaign.workers import LocalWorkers


class Expression:
    """Work that evaluates an expression in a worker, as a pickled call."""

    address = "cell"

    def __init__(self, expression: str) -> None:
        self._call = base64.b64encode(pickle.dumps((eval, (expression,)))).decode()

    def as_dict(self) -> dict[str, Any]:
        """Return what the worker process reads."""
        return {"address": self.address, "call": self._call, "path": sys.path}


def value_in_worker(expression: str) -> Any:
    with LocalWorkers(1, lambda _address: "") as workers:
        (result,) = [found for found in workers.run([Expression(f"{{'value': {expression}}}")]) if found is not None]
    return result["value"]


@pytest.mark.parametrize(("given", "expected"), [(None, 1), ("2", 2)])
def test_a_worker_uses_one_thread_of_polars(given: str | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many workers as cores. The user's own setting wins."""
    if given is None:
        monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    else:
        monkeypatch.setenv("POLARS_MAX_THREADS", given)
    assert value_in_worker("__import__('polars').thread_pool_size()") == expected
