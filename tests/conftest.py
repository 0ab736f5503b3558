"""Markers and settings for all tests."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings
from support import nursery

# The same examples each time, so that a red run is red for everybody; new ones where somebody asks for more.
settings.register_profile(
    "pybatsched",
    deadline=None,
    print_blob=True,
    derandomize=float(os.environ.get("PYBATSCHED_EXAMPLES", "1")) <= 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pybatsched")


def pytest_sessionfinish() -> None:
    nursery.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for program in ("batsim", "batsim5"):  # markers have the names of the programs that their tests run
        if shutil.which(program) is None:
            for item in items:
                if item.get_closest_marker(program):
                    item.add_marker(pytest.mark.skip(reason=f"no {program} on the PATH"))
