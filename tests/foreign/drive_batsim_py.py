"""Whole simulations driven by batsim-py, which starts the batsim on the PATH. Runs in the foreign environment.

    drive_batsim_py.py OUT PLATFORM WORKLOAD EVENTS SCENARIO...

Writes the table of each of batsim-py's monitors, and what its scheduler interface has seen, to OUT/SCENARIO/tables. The
files of Batsim are in OUT/SCENARIO/files, under the prefix batsim: batsim-py puts them where temporary files go.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import batsim_py  # type: ignore[import-not-found]
from batsim_py import monitors, simulator as handlers

#: Idle time after which hosts sleep, and run time after which jobs are killed, in the scenarios that use them.
IDLE_S, KILLED_AFTER_S = 4, 6
SIMULATED_S = 40
#: Machines that the events of inputs.py take away, until all are back.
N_UNSAFE, SAFE_FROM_S = 3, 40
MONITORS = (
    "JobMonitor",
    "SchedulerMonitor",
    "HostMonitor",
    "SimulationMonitor",
    "HostStateSwitchMonitor",
    "HostPowerStateSwitchMonitor",
    "ConsumedEnergyMonitor",
)


class Patient(subprocess.Popen[bytes]):
    """A process with a long wait for its end: batsim-py gives Batsim only five seconds for its files."""

    def wait(self, timeout: float | None = None) -> int:
        return super().wait(float(os.environ["PATIENCE_S"]))


class Scheduler:
    """First come, first served, with the additions of the scenario."""

    def __init__(self, simulator: Any, scenario: str) -> None:
        self.simulator = simulator
        self.scenario = scenario
        self.seen: list[list[Any]] = []
        self._idle_since: dict[int, float] = {}
        for event in (*batsim_py.JobEvent, *batsim_py.HostEvent, *batsim_py.SimulatorEvent):
            simulator.subscribe(event, lambda sender, event=event: self._note(event, sender))

    def decide(self) -> None:
        """Decide once: at each event, or each second where hosts are switched."""
        simulator = self.simulator
        if self.scenario == "kill":
            self._kill_and_reject()
        for job in simulator.queue:
            if self.scenario == "sharing":
                free = list(simulator.platform.hosts)
            else:
                free = simulator.platform.get_not_allocated_hosts()
            free = [host for host in free if not host.is_switching_off and not self._is_unsafe(host.id)]
            if job.res > len(free):
                break
            simulator.allocate(job.id, [host.id for host in free[: job.res]])
        if self.scenario == "energy":
            self._save_energy()

    def proceed(self) -> None:
        self.simulator.proceed_time(1 if self.scenario == "energy" else 0)

    def _is_unsafe(self, host_id: int) -> bool:
        """Return whether a host may be unavailable: batsim-py loses this when a job on the host ends."""
        return self.scenario == "events" and host_id < N_UNSAFE and self.simulator.current_time <= SAFE_FROM_S

    def _kill_and_reject(self) -> None:
        for job in list(self.simulator.jobs):
            if job.is_submitted and job.res == 6:
                self.simulator.reject_job(job.id)
            elif job.is_running and self.simulator.current_time - job.start_time >= KILLED_AFTER_S and job.res > 2:
                self.simulator.kill_job(job.id)
                return

    def _save_energy(self) -> None:
        simulator, now = self.simulator, self.simulator.current_time
        for host in simulator.platform.hosts:
            if not host.is_idle or host.is_allocated:
                self._idle_since.pop(host.id, None)
                continue
            since = self._idle_since.setdefault(host.id, now)
            if now - since >= IDLE_S and host.id % 2:
                simulator.switch_off([host.id])
            elif now - since >= IDLE_S and host.pstate.id == 0:
                simulator.switch_power_state(host.id, 1)

    def _note(self, event: Any, sender: Any) -> None:
        who = getattr(sender, "id", "")
        state = str(getattr(sender, "state", ""))
        agenda = [round(reservation.release_time, 6) for reservation in self.simulator.agenda]
        self.seen.append([self.simulator.current_time, str(event), who, state, agenda])


def drive(scenario: str, out: Path, platform: str, workload: str, events: str) -> None:
    tables, files = out / "tables", out / "files"
    for place in (tables, files):
        place.mkdir(parents=True)
    tempfile.tempdir = str(files)
    simulator = batsim_py.SimulatorHandler()
    watchers = {name: getattr(monitors, name)(simulator) for name in MONITORS}
    scheduler = Scheduler(simulator, scenario)
    simulator.start(
        platform=platform,
        workload=workload,
        simulation_time=SIMULATED_S if scenario == "limited" else None,
        allow_compute_sharing=scenario == "sharing",
        external_events=events if scenario == "events" else None,
    )
    while simulator.is_running:
        scheduler.decide()
        if simulator.is_running:
            scheduler.proceed()
    for name, monitor in watchers.items():
        table = monitor.to_dataframe()
        table.drop(columns="simulation_time", errors="ignore").to_csv(tables / f"{name}.csv", index=False)
    (tables / "seen.json").write_text("\n".join(json.dumps(line) for line in scheduler.seen))


if __name__ == "__main__":
    handlers.subprocess.Popen = Patient
    for scenario in sys.argv[5:]:
        drive(scenario, Path(sys.argv[1]) / scenario, *sys.argv[2:5])
