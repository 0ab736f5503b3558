"""What simulated faults have found: each scene failed once."""

from __future__ import annotations

from reliability.scenes import Job, Kill, Outage, Scene
from reliability.soak_checks import assert_sound

_NODE = ({"node": "n0"}, {"node": "n0"}, {"node": "n0"}, {"node": "n0"})


def test_the_published_program_is_not_called_for_ever_by_a_late_scheduler() -> None:
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


def test_who_waits_for_an_endless_job_has_a_place_when_that_one_has_ended() -> None:
    """What is left of a suspended job past its estimate has no known end; without compression nobody looked again."""
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


def test_the_published_program_does_not_ask_again_while_machines_are_away() -> None:
    """It made a pass in vain every 30 seconds for as long as they were away."""
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


def test_a_deadline_is_met_when_the_job_ends_and_not_when_a_busy_scheduler_hears_of_it() -> None:
    """The job ends at its deadline; the scheduler is busy then, hears of it a second later, and told of a promise."""
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
