"""Short ways to figures: they give what the long ones give."""

from __future__ import annotations

from hypothesis import given, strategies as st
from support.examples import examples

from pybatsched.metrics.classes import MEASURES, value_of, values_of
from pybatsched.metrics.distributions import distribution, mean_and_maximum
from pybatsched.metrics.outcomes import JobRecord, Outcome, bounded_slowdown
from pybatsched.metrics.series import procs_in_use, queue_length, steps_of

_TIMES = st.one_of(st.integers(0, 20).map(float), st.floats(0, 1e7).map(lambda value: round(value, 6)))
_SEGMENTS = st.lists(st.tuples(_TIMES, _TIMES, st.integers(0, 9)), max_size=3)


@st.composite
def _records(draw: st.DrawFn) -> list[JobRecord]:
    """Jobs of no, one or several segments, which need not make sense."""
    return [
        JobRecord(
            f"w0!{number}",
            "COMPLETED_SUCCESSFULLY" if parts else "REJECTED",
            draw(_TIMES),
            draw(_TIMES),
            tuple(Outcome(f"w0!{number}", "COMPLETED_KILLED", 0.0, *part) for part in parts),
        )
        for number, parts in enumerate(draw(st.lists(_SEGMENTS, max_size=6)))
    ]


@given(st.lists(st.floats(-1e9, 1e9)))
@examples(100)
def test_mean_and_maximum_are_those_of_the_distribution(values: list[float]) -> None:
    told = distribution(values)
    assert mean_and_maximum(values) == ((None, None) if told is None else (told.mean, told.maximum))


@given(_records(), st.sampled_from([*MEASURES, "load_s", "stretch"]), st.sampled_from([0.0, 10.0, 60.0]))
@examples(200)
def test_a_measure_of_all_jobs_is_that_of_each(records: list[JobRecord], measure: str, tau_s: float) -> None:
    each = [value_of(record, measure, tau_s) for record in records]
    assert values_of(records, measure, tau_s) == [value for value in each if value is not None]


@given(_TIMES, _TIMES, st.sampled_from([0.0, 1e-9, 10.0, 60.0]))
@examples(100)
def test_bounded_slowdowns_by_their_definition(wait_s: float, runtime_s: float, tau_s: float) -> None:
    assert bounded_slowdown(wait_s, runtime_s, tau_s) == max((wait_s + runtime_s) / max(runtime_s, tau_s, 1e-6), 1.0)


@given(_records())
@examples(200)
def test_use_and_queue_change_with_every_segment(records: list[JobRecord]) -> None:
    use = []
    queue = []
    for record in records:
        since = record.submitted_at
        for part in record.segments:
            use += [(part.started_at, float(part.n_procs)), (part.ended_at, -float(part.n_procs))]
            queue += [(since, 1.0), (part.started_at, -1.0)]
            since = part.ended_at
    assert procs_in_use(records) == steps_of(use)
    assert queue_length(records) == steps_of(queue)
