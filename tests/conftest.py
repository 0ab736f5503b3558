"""Markers and settings for all tests."""

from __future__ import annotations

import os

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


def pytest_sessionfinish() -> None:
    nursery.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker in ("batsim", "batsim5"):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not config_says_no(marked[0].config) and programs.program(marker) is None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"no {marker} on the PATH"))


def config_says_no(config: pytest.Config) -> bool:
    """Tell whether tests beside a real Batsim are left out anyhow; then nobody need look for one."""
    return "not batsim and" in str(config.getoption("-m"))
