"""A policy that waits for ever, for tests of what happens meanwhile; loaded by path into the real process."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from pybatsched.core import decisions as d
from pybatsched.core.options import Options
from pybatsched.core.policy import Policy


class WaitsOptions(Options):
    """The file that shows that it waits."""

    mark: str


class Waits(Policy):
    """Reports that it runs, and decides nothing until a signal comes."""

    Options = WaitsOptions
    options: WaitsOptions

    def decide(self, now: float) -> Iterable[d.Decision]:
        Path(self.options.mark).touch()
        while True:
            signal.pause()
