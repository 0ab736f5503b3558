"""Run AccaSim's EASY backfilling with its first-fit allocator on a log. Runs in AccaSim's own environment.

    build/accasim/bin/python benchmarks/run_accasim.py LOG.swf SYSTEM.config DIRECTORY

Writes DIRECTORY/sched-LOG.swf, AccaSim's table of jobs, and nothing else.
"""

from __future__ import annotations

import collections
import collections.abc
import sys

# AccaSim 1.1.3 is from 2020 and uses this name, which Python removed after 3.9.
collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]

from accasim.base.allocator_class import FirstFit  # type: ignore[import-not-found]  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling  # type: ignore[import-not-found]  # noqa: E402
from accasim.base.simulator_class import Simulator  # type: ignore[import-not-found]  # noqa: E402

log, system, directory = sys.argv[1:]
Simulator(
    log,
    system,
    EASYBackfilling(FirstFit()),
    statistics_output=False,
    show_statistics=False,
    RESULTS_FOLDER_PATH=directory,
).start_simulation()
