"""batsched, the C++ scheduler of Batsim's authors, gives the same schedules with our simulator as with Batsim."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.places import GOLDEN
from support.programs import find

from foreign.inputs import write_input
from foreign.programs import free_port, our_simulator, rows, run_pair


def find_batsched() -> str | None:
    """Return batsched on the PATH, or beside the real file of a batsim that is there."""
    batsim = find("batsim")
    beside = None if batsim is None else str(Path(batsim).resolve().parent)
    return find("batsched") or shutil.which("batsched", path=beside)


BATSCHED = find_batsched()
#: batsched reads two members before it sets them (docs/other-tools.md): its memory must be zero.
ZEROED = ["env", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=255"]
SCHEDULES = sorted(path.parent.resolve() for path in (GOLDEN / "schedules").glob("*/workload.json"))
pytestmark = [
    pytest.mark.batsim,
    pytest.mark.skipif(BATSCHED is None, reason="no batsched on the PATH or beside batsim"),
]

#: The machines of inputs.py, in the form that batsched's schedulers need to switch them; times are those of pstates.
MACHINES = {
    "power_sleep": 5,
    "power_idle": 50,
    "power_compute": 150,
    "energy_switch_on": 2400,
    "energy_switch_off": 400,
    "time_switch_off": 5,
    "time_switch_on": 20,
    "pstate_sleep": 3,
    "pstate_compute": 0,
}
MONITORED = MACHINES | {
    "monitoring_period": 8,
    "idle_time_to_sedate": 4,
    "sedate_idle_on_classical_events": True,
    "ensured_sleep_time_lower_bound": 0,
    "ensured_sleep_time_upper_bound": 0,
}


@dataclass(frozen=True)
class Variant:
    """A scheduler of batsched: its name, its options, and Batsim's options for it.

    If machines sleep (`is_noisy`), Batsim's clock differs in the last bits: rows of one instant may be exchanged.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    batsim: tuple[str, ...] = ()
    label: str = ""
    is_noisy: bool = False

    def __str__(self) -> str:
        return f"{self.name}{self.label}"


FORWARD = ("--forward-profiles-on-submission",)
DYNAMIC = ("--enable-dynamic-jobs",)
ENERGY = ("-E",)
SUBMITTED = {"nb_jobs_to_submit": 10, "send_profiles_in_separate_event": True, "set_job_metadata": True}
VARIANTS = [
    *map(Variant, ("fcfs", "fcfs_fast", "easy_bf", "easy_bf_fast", "conservative_bf", "filler")),
    *map(Variant, ("killer2", "rejecter", "sequencer", "waiting_time_estimator")),
    Variant("easy_bf_plot_liquid_load_horizon"),
    Variant("filler", {"fraction_of_machines_to_use": 0.5, "set_job_metadata": True}, label="-half"),
    Variant("killer", {"delay_before_kill": 3, "nb_kills_per_job": 1}, FORWARD),
    Variant("killer", {"delay_before_kill": 0, "nb_kills_per_job": 2}, FORWARD, "-twice"),
    Variant("submitter", SUBMITTED | {"increase_jobs_duration": True, "send_profile_if_already_sent": True}, DYNAMIC),
    Variant(
        "submitter",
        SUBMITTED | {"increase_jobs_duration": False, "send_profile_if_already_sent": False, "reuse_profiles": True},
        (*DYNAMIC, "--acknowledge-dynamic-jobs", "--enable-profile-reuse"),
        "-acknowledged",
    ),
    Variant("energy_watcher", {}, ENERGY),
    Variant("sleeper", MACHINES, ENERGY, is_noisy=True),
    Variant("energy_bf", MACHINES, ENERGY, is_noisy=True),
    Variant("energy_bf_idle_sleeper", MONITORED, ENERGY, is_noisy=True),
    Variant(
        "energy_bf_monitoring_inertial",
        MONITORED | {"inertial_alteration": "x2", "allow_future_switches": True, "upper_llh_threshold": 100},
        ENERGY,
        is_noisy=True,
    ),
    Variant("energy_bf_subpart_sleeper", MONITORED | {"fraction_of_machines_to_let_awake": 0.5}, ENERGY, is_noisy=True),
    Variant("energy_bf_dicho", MONITORED | {"tolerated_slowdown_loss_ratio": 0.1}, ENERGY, is_noisy=True),
]


@pytest.mark.parametrize("directory", SCHEDULES, ids=lambda d: d.name)
@pytest.mark.parametrize("variant", ["fcfs_fast", "easy_bf", "conservative_bf"])
def test_schedules_of_batsched_equal_those_with_batsim(variant: str, directory: Path, tmp_path: Path) -> None:
    assert BATSCHED is not None
    port = free_port()
    scheduler = [*ZEROED, BATSCHED, "-v", variant, "-d", "0", "-s", f"tcp://127.0.0.1:{port}"]
    args = ["-p", str(directory / "platform.xml"), "-w", str(directory / "workload.json")]
    outcome = run_pair(scheduler, our_simulator(args, port, tmp_path / "out"), tmp_path)
    assert outcome.codes == (0, 0), outcome.output
    # Where a start in Batsim missed the submission by a last bit, its wait is -0.000000; our clock has no such noise.
    expected = (directory / f"{variant}_jobs.csv").read_bytes().replace(b",-0.000000,", b",0.000000,")
    assert (tmp_path / "out_jobs.csv").read_bytes() == expected


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_same_run_with_batsim(variant: Variant, tmp_path: Path) -> None:
    """All its schedulers but random, crasher and energy_bf_monitoring, which requests calls for ever."""
    made = write_input(tmp_path, energy=True)
    for name, batsim in (("ours", [sys.executable, "-m", "pybatsched", "batsim"]), ("theirs", ["batsim"])):
        out = tmp_path / name
        out.mkdir()
        traces = {"output_dir": str(out), "trace_output_filename": str(out / "trace.csv")}
        options = tmp_path / f"{name}.json"
        options.write_text(json.dumps(variant.options | traces))
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        scheduler = [*ZEROED, str(BATSCHED), "-v", variant.name, "--variant_options_filepath", str(options)]
        scheduler += ["-s", endpoint]
        simulator = [*batsim, *made.args, *variant.batsim, "-s", endpoint, "-e", str(out / "run"), "-q"]
        outcome = run_pair(scheduler, simulator, tmp_path)
        assert outcome.codes == (0, 0), outcome.output
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert len(rows(theirs / "run_jobs.csv")) >= len(json.loads(made.workload.read_text())["jobs"])
    names = {path.name for path in theirs.glob("run_*.csv")}
    assert names == {path.name for path in ours.glob("run_*.csv")}
    compared = {"run_jobs.csv"} if variant.is_noisy else names - {"run_schedule.csv"}  # that has times by the clock
    for name in sorted(compared):
        # Bytes over a link of 1e300 B/s take a time after all, which is seen at 0 alone.
        text = re.sub(rb"\n[\d.]+e-(?:299|300),", b"\n0,", (theirs / name).read_bytes())
        assert (ours / name).read_bytes() == text, name
