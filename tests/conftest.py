"""Markers and settings for all tests."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import nursery, programs

# The same examples each time, so that a failure can be repeated; new ones if more examples are requested.
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for ``-n auto``: one more than cores, as many tests wait for processes."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_sessionfinish() -> None:
    nursery.close()


def pytest_collection(session: pytest.Session) -> None:
    """Hide programs that only marked tests use from test modules, tests and their child processes.

    With xdist, this happens in each worker: the process that starts the workers collects nothing.
    """
    place = tempfile.TemporaryDirectory(prefix="pybatsched-path-")
    session.config.add_cleanup(place.cleanup)
    os.environ["PATH"] = programs.without_hidden(programs.FULL_PATH, Path(place.name))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Restore the signal handlers that commands set in the process of a test."""
    handlers = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        return (yield)
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


@pytest.hookimpl(wrapper=True)  # around the fixtures of all scopes
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not any(map(item.get_closest_marker, programs.MARKERS)):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", programs.FULL_PATH)
        return (yield)


@pytest.hookimpl(trylast=True)  # when those that nobody has asked for are out: for them nobody need look
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker in ("batsim", "batsim5", "browser", "slurm"):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and (missing := programs.missing(marker)):
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"no {missing} on the PATH"))
