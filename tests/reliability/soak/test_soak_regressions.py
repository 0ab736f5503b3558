"""Scenes found by simulated faults: each failed once."""

from __future__ import annotations

import pytest

from reliability.soak.checks import judge
from reliability.soak.scenes import Job, Kill, Outage, Scene

_NODE = ({"node": "n0"}, {"node": "n0"}, {"node": "n0"}, {"node": "n0"})


def _gpu_node(number: int) -> dict[str, str]:
    return {"node": f"n{number}", "memory_gb": "8", "gpus": "2"}


_STOPPED = (
    Job("w0!0", at=0.0, n=3, s=10.0, fields={"walltime": 11}),
    Job("w0!1", at=7.0, n=1, s=1.0, fields={"walltime": 2.2, "urgent": True}),
)

SCENES = {
    # Each call came between two seconds, and the program only looked at whole ones.
    "faithful locality with a decision delay stops requesting calls": Scene(
        "published_locality", 4, (Job("w0!6", at=7.5, n=4, s=11.0, fields={"walltime": 111.0}),),
        options={"interval_s": 5}, hosts=_NODE, kills=(Kill(34.05, 0),), late=(1.0,), dynamic=True,
    ),
    # The rest of a suspended job past its estimate has no known end; without compression no plan followed.
    "a job behind an endless job has a reservation after its end": Scene(
        "ujfb", 6,
        (
            Job("w0!0", at=0.0, n=1, s=7.0, fields={"estimate": 3.5}),
            Job("w0!1", at=5.0, n=6, s=3.0, fields={"walltime": 3.0, "urgent": True}),
            Job("w0!5", at=10.0, n=6, s=1.0, fields={"estimate": 9.0}),
        ),
        options={"compression": False, "swap": "fixed"}, dynamic=True,
    ),
    # It made a useless pass every 30 seconds while they were unavailable.
    "faithful locality makes no passes while machines are unavailable": Scene(
        "published_locality", 4, (Job("w0!0", at=0.0, n=4, s=10.0, fields={"walltime": 20.0}),),
        options={}, hosts=_NODE, outages=(Outage(1.0, 40_000.0, "0"),), dynamic=True,
    ),
    # The job ends at its deadline; the busy scheduler got the message a second later, and reported a miss.
    "a deadline is judged by the end of the job and not by the time of its message": Scene(
        "dbf", 1,
        (
            Job("w0!0", at=6.0, n=1, s=10.0, fields={"estimate": 10.0, "max_stay": 10.0}),
            Job("w0!1", at=14.0, n=1, s=1.0, fields={"estimate": 1.0}),
        ),
        late=(3.0,),
    ),
    # Batsim reports delays below half a microsecond as 0.0, so a job of another size was registered with 0 s.
    "delays shorter than a tick make no empty profile": Scene(
        "reallocation", 1,
        (
            Job("w0!1", at=0.0, n=2, s=1e-06, kind="parts",
                fields={"estimate": 1e-05, "moldable": {"fraction": 0, "limit": 4}}),
        ),
        dynamic=True,
    ),
    # Its machine failed permanently between the decision to kill it and the kill.
    **{
        f"a stopped job that cannot resume is rejected, {mode}": Scene(
            "ujfb", 3, _STOPPED, options={"mode": mode}, outages=(Outage(7.2, None, "1"),), late=(0.5,), dynamic=True
        )
        for mode in ("suspend", "kill_restart")
    },
    # A reservation does not move a suspended job to other processors: its memory is where it was.
    "suspended jobs resume on their processors beside reservations": Scene(
        "ujfb", 12,
        (
            Job("w0!2", at=0.0, n=3, s=4.0, fields={"estimate": 0.8}),
            Job("w0!7", at=0.0, n=6, s=1.0, fields={"walltime": 2.0, "urgent": True}),
            Job("w0!9", at=0.0, n=11, s=1.0, fields={"walltime": 0.6, "urgent": True}),
        ),
        options={"swap": "fixed", "swap_in": 0, "host_reservations": [
            {"name": "r0", "start": 2.111327, "duration": 0.129145, "hosts": "7-8", "conflict": "wait"},
        ]},
        dynamic=True,
    ),
    "jobs of a reservation do not start on drained hosts": Scene(
        "conservative", 2,
        (Job("w0!8", at=0.0, n=1, s=1.0, fields={"estimate": 3.0, "user": "bob", "reservation": "r"}),),
        options={"host_reservations": [
            {"name": "r", "start": 20.0, "duration": 3.0, "hosts": "1-1", "conflict": "wait", "users": ["bob"]},
        ]},
        drains=(Outage(10.3, 20.3, "0-1"),),
    ),
    # A reservation requeued it into the principal group, where it was redirected again.
    "a redirected job that comes back stays in the principal group": Scene(
        "redirection", 2,
        (
            Job("w0!5", at=0.0, n=1, s=35.2, fields={
                f"checkpoint_{name}_s": value for name, value in
                {"interval": 4.8, "dump": 6.4, "read": 0.32, "work": 16.0}.items()
            }),
            Job("w0!6", at=0.0, n=1, s=30.0),
        ),
        options={"theta": 0.5, "on_failure": "requeue_last", "host_reservations": [
            {"name": "r0", "start": 3.4, "notice": 5.1, "duration": 1.0, "hosts": "1-1", "conflict": "requeue"},
            {"name": "r2", "start": 23.5, "duration": 1.0, "hosts": "1-1", "conflict": "requeue"},
        ]},
        dynamic=True,
    ),
    # The rest of the read is part of what is left of the job; the check counted it as work.
    "a job is suspended while it reads its checkpoint": Scene(
        "ujfb", 8,
        (
            Job("w0!0", at=3.0, n=1, s=10.4, fields={
                "walltime": 11.4, "checkpoint_interval_s": 2.4, "checkpoint_dump_s": 0.8, "checkpoint_read_s": 3.2,
                "checkpoint_work_s": 8.0,
            }),
            Job("w0!1", at=4.0, n=1, s=8.0, fields={"walltime": 9.0, "urgent": True}),
            Job("w0!2", at=5.0, n=8, s=1.0, fields={"walltime": 2.0, "urgent": True}),
        ),
        options={"correct": "doubling", "predict": "mean2", "on_failure": "requeue_first", "expected_repair_s": 0.5},
        outages=(Outage(12.0, 15.0, "0"),), dynamic=True,
    ),
    # Cores of the absent processor came back twice in the plan: at its return, and at the end of its job.
    "conservative plans a job on a processor that is away": Scene(
        "conservative", 3,
        tuple(Job(f"w0!{i}", at=0.0, n=n, s=30.0, fields={"walltime": 40.0}) for i, n in enumerate((1, 1, 2))),
        options={"expected_repair_s": 20.0, "node_partitions": "p: n1-n2, default; q: n0-n2"},
        hosts=({"node": "n0", "memory_gb": "8"}, {"node": "n1", "memory_gb": "8"}, {"node": "n2", "memory_gb": "8"}),
        outages=(Outage(9.0371, 12.0371, "1"),),
    ),
    # A start behind a job past its estimate moved with the clock, and was called for.
    "conservative on nodes does not call for starts behind a late job": Scene(
        "conservative", 1,
        (
            *(Job(f"w0!{i}", at=0.0, n=1, s=1.0, fields={"memory_gb": 1}) for i in range(3)),
            Job("w0!3", at=0.0, n=1, s=1.0, fields={"estimate": 0.5}),
            Job("w0!4", at=0.0, n=1, s=1.0, fields={"walltime": 1.0}),
        ),
        options={"compression": False}, hosts=({"node": "n0", "memory_gb": "8"},),
    ),
    # There were three processors left, but only two with GPUs.
    "a job is rejected if the GPUs that it requests are lost for good": Scene(
        "easy", 4, (Job("w0!0", at=30.0, n=3, s=1.0, fields={"walltime": 2.0, "gpus_per_node": 1}),),
        hosts=({"node": "n0", "memory_gb": "8"}, *(_gpu_node(i) for i in (1, 2, 3))),
        outages=(Outage(0.0, None, "3"),),
    ),
    # It got the lowest processors of its reservation, which were in no partition of the job.
    "a job of a reservation runs in its partition": Scene(
        "fcfs", 4,
        (Job("w0!0", at=0.0, n=1, s=1.0, fields={"walltime": 2.0, "user": "bob", "reservation": "r0"}),),
        options={
            "host_reservations": [{
                "name": "r0", "start": 1.0, "duration": 5.0, "hosts": "1-3", "conflict": "wait", "users": ["bob"],
            }],
            "node_partitions": "p: n2-n3, default",
        },
        hosts=tuple(_gpu_node(i) for i in range(4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_that_failed_once_is_sound(name: str) -> None:
    assert judge(SCENES[name], socket=True).problems == []
