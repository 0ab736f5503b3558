"""Scenes found by simulated faults: each failed once."""

from __future__ import annotations

import pytest

from reliability.scenes import Job, Kill, Outage, Scene
from reliability.soak_checks import assert_sound

_NODE = ({"node": "n0"}, {"node": "n0"}, {"node": "n0"}, {"node": "n0"})


def test_faithful_locality_with_a_decision_delay_stops_requesting_calls() -> None:
    """Each call came between two seconds, and the program only looked at whole ones."""
    assert_sound(
        Scene(
            policy="locality",
            n_procs=4,
            jobs=(Job("w0!6", at=7.5, n=4, s=11.0, fields={"walltime": 111.0}),),
            options={"faithful": True, "interval_s": 5},
            hosts=_NODE,
            kills=(Kill(34.05, 0),),
            late=(1.0,),
            dynamic=True,
        )
    )


def test_a_job_behind_an_endless_job_has_a_reservation_after_its_end() -> None:
    """The rest of a suspended job past its estimate has no known end; without compression no plan followed."""
    assert_sound(
        Scene(
            policy="ujfb",
            n_procs=6,
            jobs=(
                Job("w0!0", at=0.0, n=1, s=7.0, fields={"estimate": 3.5}),
                Job("w0!1", at=5.0, n=6, s=3.0, fields={"walltime": 3.0, "urgent": True}),
                Job("w0!5", at=10.0, n=6, s=1.0, fields={"estimate": 9.0}),
            ),
            options={"compression": False, "swap": "fixed"},
            dynamic=True,
        )
    )


def test_faithful_locality_makes_no_passes_while_machines_are_unavailable() -> None:
    """It made a useless pass every 30 seconds while they were unavailable."""
    assert_sound(
        Scene(
            policy="locality",
            n_procs=4,
            jobs=(Job("w0!0", at=0.0, n=4, s=10.0, fields={"walltime": 20.0}),),
            options={"faithful": True},
            hosts=_NODE,
            outages=(Outage(1.0, 40_000.0, "0"),),
            dynamic=True,
        )
    )


def test_a_deadline_is_judged_by_the_end_of_the_job_and_not_by_the_time_of_its_message() -> None:
    """The job ends at its deadline; the busy scheduler got the message a second later, and reported a miss."""
    assert_sound(
        Scene(
            policy="dbf",
            n_procs=1,
            jobs=(
                Job("w0!0", at=6.0, n=1, s=10.0, fields={"estimate": 10.0, "max_stay": 10.0}),
                Job("w0!1", at=14.0, n=1, s=1.0, fields={"estimate": 1.0}),
            ),
            late=(3.0,),
        )
    )


def test_delays_shorter_than_a_tick_make_no_empty_profile() -> None:
    """Batsim reports delays below half a microsecond as 0.0, so a job of another size was registered with 0 s."""
    moldable = {"fraction": 0, "limit": 4}
    assert_sound(
        Scene(
            policy="reallocation",
            n_procs=1,
            jobs=(Job("w0!1", at=0.0, n=2, s=1e-06, kind="parts", fields={"estimate": 1e-05, "moldable": moldable}),),
            dynamic=True,
        )
    )


def test_a_job_that_could_never_resume_is_not_suspended() -> None:
    """Its machine had failed permanently when an urgent job came, and the run never ended."""
    assert_sound(
        Scene(
            policy="ujfb",
            n_procs=3,
            jobs=(
                Job("w0!0", at=0.0, n=3, s=1.0, fields={"walltime": 1.1}),
                Job("w0!1", at=0.7, n=1, s=1.0, fields={"walltime": 2.2, "urgent": True}),
            ),
            outages=(Outage(0.5, None, "1"),),
            dynamic=True,
        )
    )


@pytest.mark.parametrize("mode", ["suspend", "kill_restart"])
def test_a_stopped_job_that_cannot_resume_is_rejected(mode: str) -> None:
    """Its machine failed permanently between the decision to kill it and the kill."""
    assert_sound(
        Scene(
            policy="ujfb",
            n_procs=3,
            jobs=(
                Job("w0!0", at=0.0, n=3, s=10.0, fields={"walltime": 11}),
                Job("w0!1", at=7.0, n=1, s=1.0, fields={"walltime": 2.2, "urgent": True}),
            ),
            options={"mode": mode},
            outages=(Outage(7.2, None, "1"),),
            late=(0.5,),
            dynamic=True,
        )
    )


def test_suspended_jobs_resume_on_their_processors_beside_reservations() -> None:
    """A reservation does not move a suspended job to other processors: its memory is where it was."""
    tables = [{"name": "r0", "start": 2.111327, "duration": 0.129145, "hosts": "7-8", "conflict": "wait"}]
    assert_sound(
        Scene(
            policy="ujfb",
            n_procs=12,
            jobs=(
                Job("w0!2", at=0.0, n=3, s=4.0, fields={"estimate": 0.8}),
                Job("w0!7", at=0.0, n=6, s=1.0, fields={"walltime": 2.0, "urgent": True}),
                Job("w0!9", at=0.0, n=11, s=1.0, fields={"walltime": 0.6, "urgent": True}),
            ),
            options={"swap": "fixed", "swap_in": 0, "host_reservations": tables},
            dynamic=True,
        )
    )


def test_jobs_of_a_reservation_do_not_start_on_drained_hosts() -> None:
    table = {"name": "r", "start": 20.0, "duration": 3.0, "hosts": "1-1", "conflict": "wait", "users": ["bob"]}
    job = Job("w0!8", at=0.0, n=1, s=1.0, fields={"estimate": 3.0, "user": "bob", "reservation": "r"})
    drains = (Outage(10.3, 20.3, "0-1"),)
    assert_sound(Scene("conservative", 2, (job,), options={"host_reservations": [table]}, drains=drains))
