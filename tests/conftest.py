"""Markers and settings for all tests."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from support import nursery, programs

# The same examples each time, so that a red run is red for everybody; new ones where somebody asks for more.
settings.register_profile(
    "pybatsched",
    deadline=None,
    print_blob=True,
    derandomize=float(os.environ.get("PYBATSCHED_EXAMPLES", "1")) <= 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pybatsched")

# A shell without job control lets what it starts in the background ignore Ctrl-C, and so would every process of ours.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish() -> None:
    nursery.close()


@pytest.hookimpl(trylast=True)  # when those that nobody has asked for are out: for them nobody need look
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker in ("batsim", "batsim5"):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and programs.program(marker) is None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"no {marker} on the PATH"))
