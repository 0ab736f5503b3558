"""Jobs as columns: read one by one, they are the dictionaries that a plain loop would make."""

from typing import Any

import polars as pl
from hypothesis import given, strategies as st

from pybatsched.workload.job_columns import JobColumns, computed, plain_columns
from pybatsched.workload.logs.conversion import extra_value
from pybatsched.workload.model import Workload

NUMBERS = st.one_of(st.none(), st.integers(-5, 5).map(float), st.floats(-1e6, 1e6))
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9), NUMBERS, st.none() | st.sampled_from(["7", "a", "1.50"]), st.none() | st.just(["1", "2"])
    ),
    max_size=40,
)
SCHEMA: dict[str, Any] = {"id": pl.Int64, "memory_gb": pl.Float64, "label": pl.String, "depends_on": pl.List(pl.String)}


def plain(value: Any) -> Any:
    """Return a value as a job has it: a number without a fraction is an integer, a label may be a number."""
    if isinstance(value, float):
        return int(value) if value == int(value) else value
    return extra_value(value) if isinstance(value, str) else value


def jobs_of(rows: list[Any]) -> tuple[JobColumns, list[dict[str, Any]]]:
    """Return the columns of rows, and the jobs that a plain loop makes of them."""
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    expected = [{k: plain(v) for k, v in zip(SCHEMA, row, strict=True) if v is not None} for row in rows]
    return JobColumns(table, {"label": extra_value}), expected


@given(rows=ROWS)
def test_jobs_are_those_of_a_plain_loop(rows: list[Any]) -> None:
    jobs, expected = jobs_of(rows)
    assert list(map(repr, map(sorted, map(dict.items, jobs)))) == [repr(sorted(job.items())) for job in expected]
    assert jobs == expected
    assert jobs[1:3] == expected[1:3]
    if expected:
        assert (jobs[0], jobs[-1]) == (expected[0], expected[-1])
    as_columns, as_list = (Workload(one, {}, 1) for one in (jobs, expected))
    assert as_columns.fields == as_list.fields
    for name in (*SCHEMA, "missing"):
        assert as_columns.values(name) == as_list.values(name)


@given(rows=ROWS)
def test_the_table_for_users_is_that_of_the_dictionaries(rows: list[Any]) -> None:
    jobs, expected = jobs_of(rows)
    found = {column.name: (column.dtype, column.to_list()) for column in jobs.columns()}
    assert found == {column.name: (column.dtype, column.to_list()) for column in plain_columns(expected)}


def test_fields_of_all_jobs_come_first() -> None:
    """Files have the same order of fields in all jobs, whatever part of the jobs is read."""
    jobs = JobColumns(pl.DataFrame({"user": [None, "a"], "id": [1, 2], "queue": [None, None]}))
    assert [list(job) for job in jobs] == [["id"], ["id", "user"]]
    assert list(jobs[1:][0]) == ["id", "user"]


def test_changing_a_job_does_not_change_the_columns() -> None:
    jobs, _ = jobs_of([(1, 2.0, "a", None)])
    jobs[0]["id"] = 5
    assert jobs[0]["id"] == 1


@given(rows=st.lists(st.tuples(st.none() | st.sampled_from([0.0, 1.5]), st.none() | st.integers(0, 2)), max_size=30))
def test_equal_rows_are_computed_once(rows: list[tuple[float | None, int | None]]) -> None:
    calls = []

    def function(a: float | None, b: int | None) -> str | None:
        calls.append((a, b))
        return None if b is None else f"{a} {b}"

    table = pl.DataFrame(rows, schema={"a": pl.Float64, "b": pl.Int64}, orient="row")
    assert computed(table, function, pl.String).to_list() == [None if b is None else f"{a} {b}" for a, b in rows]
    assert len(calls) == len(set(calls)) == len(set(rows))
