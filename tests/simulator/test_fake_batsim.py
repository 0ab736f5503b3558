"""The fake Batsim of `pybatsched.testing` rejects the jobs that Batsim rejects in a workload file."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pybatsched.errors import InputError
from pybatsched.testing import Workload, run_policy


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"s": 0}, 'the workload: profile "d0", field delay: expected more than 0 seconds, found 0'),
        ({"s": -1.5}, 'the workload: profile "d-1.5", field delay: expected more than 0 seconds, found -1.5'),
        ({"s": math.nan}, 'the workload: profile "dnan", field delay: expected more than 0 seconds, found NaN'),
        ({"at": -1}, 'the workload: job "a", field subtime: expected a number of seconds, 0 or more, found -1'),
        ({"walltime": -2}, 'the workload: job "a", field walltime: expected more than 0 seconds, or -1 for none'),
        ({"walltime": 0}, 'the workload: job "a", field walltime: expected more than 0 seconds, or -1 for none'),
        ({"n": "2"}, 'the workload: job "a", field res: expected a whole number of processors, 0 or more, found "2"'),
    ],
)
def test_a_job_that_batsim_rejects_is_rejected(job: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run_policy("fcfs", Workload().job("a", **({"n": 1, "s": 10} | job)), n_procs=4)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("n_procs", ["4", 4.0, None])
def test_an_invalid_number_of_processors_is_rejected(n_procs: Any) -> None:
    with pytest.raises(InputError, match=r"n_procs is .*; expected a whole number of processors"):
        run_policy("fcfs", Workload().job("a", n=1, s=1), n_procs=n_procs)


def test_a_job_without_a_walltime_is_accepted() -> None:
    fake = run_policy("fcfs", Workload().job("a", n=1, s=1, walltime=-1), n_procs=4)
    assert fake.jobs["w0!a"].final_state == "COMPLETED_SUCCESSFULLY"
