"""Fast reading equals careful reading, and only careful reading reports errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.logs import line

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4, swf_reader
from pybatsched.workload.formats.conversion import procs_in_use
from pybatsched.workload.formats.slurm_values import JobId
from pybatsched.workload.formats.swf_reader import SwfTrace
from pybatsched.workload.formats.tables import reader as table_reader
from pybatsched.workload.report import Report
from pybatsched.workload.walltimes import plain, plains

# ------------------------------------------------------------------------------------------------------------- logs

_NUMBERS = ["0", "-1", "7", "+3", "4.0", "4.5", "-2", "1e3", "-0", "007", "9007199254740991", "9007199254740992"]
_ODD = ["1_000", "x", "nan", "inf", "-inf", "1e999", "1e308", "--1", "0x10", "1,5", "٣", "\0", ";"]
_SPACES = [" ", "  ", "\t", " \r", "\x0b", "\x0c"]


@st.composite
def _fields(draw: st.DrawFn) -> str:
    """A line of fields: mostly 18, mostly numbers, with names where the format has labels, at most one unusual."""
    n = draw(st.sampled_from([18] * 16 + [17, 19, 6, 12, 37, 1]))
    fields = [
        draw(st.sampled_from(_NUMBERS if index not in (11, 12, 13, 14, 15) else [*_NUMBERS, "ann", "a_b", "Umeå"]))
        for index in range(n)
    ]
    if draw(st.integers(0, 3)) == 0:
        fields[draw(st.integers(0, n - 1))] = draw(st.sampled_from(_ODD))
    between = draw(st.sampled_from(_SPACES))
    return draw(st.sampled_from(["", "", "", " "])) + between.join(fields)


_LINES = st.one_of(
    *[_fields()] * 6,
    st.just(line()),
    st.sampled_from(["", "  ", "; MaxProcs: 8", " ; Note: b", ";", "; a ; b", "; 18: gpus"]),
)
_CHUNKS = st.tuples(
    st.lists(_LINES, max_size=6), st.sampled_from(["\n", "\n", "\r\n"]), st.booleans(), st.sampled_from([0, 100])
)


def _state(trace: SwfTrace) -> Any:
    columns = [[(type(value), value) for value in column] for column in (*trace.numbers, *trace.labels)]
    return columns, list(trace.lines), trace.header, trace.bad, trace.extras, trace.unnamed


def _taken(way: str, chunk: bytes, n_before: int, *, lenient: bool) -> Any:
    """Read a chunk in one way; return the number of lines and the kept fields, or the error."""
    trace = SwfTrace("log.swf")
    reader = swf_reader._Reader(trace, lenient=lenient)
    try:
        return getattr(reader, way)(chunk, n_before), _state(trace)
    except InputError as error:
        return str(error)


@given(_CHUNKS, st.booleans())
@examples(400)
def test_fast_and_careful_reading_of_lines_are_equal(drawn: tuple[list[str], str, bool, int], lenient: bool) -> None:
    lines, end, ends_with_line, n_before = drawn
    chunk = (end.join(lines) + end * ends_with_line).encode()
    carefully = _taken("take_carefully", chunk, n_before, lenient=lenient)
    assert _taken("take", chunk, n_before, lenient=lenient) == carefully
    n, kept = _taken("take_jobs", chunk, n_before, lenient=lenient)
    if n is None:
        assert kept == _state(SwfTrace("log.swf"))
    else:
        assert (n, kept) == carefully


def test_lines_of_jobs_are_read_by_the_fast_path() -> None:
    """The fast path is used if possible: with names, points, tabs, both line ends, and none at the last line."""
    chunk = "\r\n".join([line(1, user="a_b"), line(2, "1.5").replace(" ", "\t"), line("3.0")]).encode()
    n, kept = _taken("take_jobs", chunk, 5, lenient=False)
    assert n == 3
    assert kept[1] == [6, 7, 8]
    for odd in (line(run="x"), line(run="1_0"), line() + " 1", "1 2", "", "; Note: a"):
        assert _taken("take_jobs", f"{line()}\n{odd}\n{line()}\n".encode(), 0, lenient=False)[0] is None


def test_lines_that_only_together_have_the_fields_of_jobs() -> None:
    """The lines end where jobs could end, or where a name may be: they must not be taken for jobs."""
    fields = line().split()
    for lines, text in (
        ([fields[:12], [*fields[12:], *fields]], "line 1: expected at least 18 fields, found 12"),
        ([[*fields, ";", *fields[:11]], fields[12:]], "line 2: expected at least 18 fields, found 6"),
    ):
        chunk = b"".join(f"{' '.join(row)}\n".encode() for row in lines)
        assert _taken("take_jobs", chunk, 0, lenient=False)[0] is None
        assert _taken("take", chunk, 0, lenient=False) == f"log.swf: {text}"


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "1e999", "9007199254740992", "-9007199254740992", "1_0", "x"])
def test_unusual_numbers_are_not_read_by_the_fast_path(odd: str) -> None:
    for place in range(3):
        lines = [line(run=odd if place == k else k) for k in range(3)]
        assert _taken("take_jobs", "\n".join(lines).encode(), 0, lenient=False)[0] is None


@given(st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats())))
@examples(200)
def test_fast_and_careful_reading_of_values_are_equal(values: list[float]) -> None:
    assert list(map(repr, plains(values))) == [repr(plain(value)) for value in values]


# ------------------------------------------------------------------------------------------------------------- JSON

_TEXTS = st.one_of(st.sampled_from(["id", "a:b", ":", "\\", '"', "ü", "\u2028", ""]), st.text(max_size=5))
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([1 << 63, 1 << 64, -(1 << 64), 10**30]),
        st.floats(allow_nan=False, allow_infinity=False),
        _TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=12,
)
#: What makes a text odd: keys given twice (some of them hidden), what is no JSON, what no file should hold.
_SPOILED = st.sampled_from(
    [
        '{"a": 1, "a": 1}', '[{"a": ":", "a": 1}]', '{"a": {"b:c": 1}, "a": 2}', '{"a": "\\u003a", "a": 1}',
        '{"a": 1, "a": "\\u003a"}', '{"a": 1, "\\u0061": 1}', '"\\ud800"', '"\\ud83d\\ude00"', "NaN", "-Infinity",
        "1e999", "1" * 5000, "01", "[1,]", "{}x", "'a'", '"\t"', "", "null",
    ]
)  # fmt: skip


def _parsed(text: bytes) -> str:
    try:
        return repr(batsim4.Parser("w.json", text).parse())
    except InputError as error:
        return f"InputError: {error}"


@given(_VALUES, st.booleans(), st.sampled_from([None, 1]))
@examples(300)
def test_fast_and_careful_reading_of_json_are_equal(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    found = batsim4.parse_fast(text)
    assert found is None or repr(found) == _parsed(text)


@given(_SPOILED, _VALUES, st.booleans())
@examples(200)
def test_unusual_json_is_left_to_careful_reading(odd: str, value: Any, first: bool) -> None:
    parts = [odd, json.dumps(value)] if first else [json.dumps(value), odd]
    text = f"[{', '.join(parts)}]".encode()
    found = batsim4.parse_fast(text)
    assert found is None or repr(found) == _parsed(text)


@given(
    st.text("0123456789", min_size=1, max_size=25),
    st.text("0123456789", min_size=1, max_size=25),
    st.integers(-330, 290),
)
@examples(300)
def test_numbers_are_read_to_the_last_bit(whole: str, part: str, power: int) -> None:
    text = f"{int(whole)}.{part}e{power}".encode()
    assert repr(batsim4.parse_fast(text)) in (repr(float(text)), "None")


def test_a_usual_workload_is_read_by_the_fast_path(tmp_path: Path) -> None:
    text = (
        '{"nb_res": 4, "note": "a: b", "jobs": [{"id": 1, "subtime": 0.5, "res": 1, "profile": "ü"}],\n'
        ' "profiles": {"ü": {"type": "delay", "delay": 5}}}'
    )
    assert batsim4.parse_fast(text.encode()) == json.loads(text)
    file = tmp_path / "w.json"
    file.write_text(text.replace('"res": 1,', '"res": 1, "res": 1,'), encoding="utf-8")
    assert batsim4.parse_fast(file.read_bytes()) is None


@given(st.lists(st.integers(0, 9), max_size=12), st.lists(st.integers(0, 9), max_size=3))
@examples(50)
def test_fast_and_careful_counts_of_jobs_are_equal(places: list[int], before: list[int]) -> None:
    at_once, one_by_one = Report(), Report()
    for report in (at_once, one_by_one):
        for place in before:
            report.count("changed", "a rule", place, "job")
    at_once.count_changed("a rule", places)
    for place in places:
        one_by_one.count("changed", "a rule", place, "job")
    assert at_once == one_by_one


# ----------------------------------------------------------------------------------------------------------- tables

_CELLS = [
    "1", "7", "0", "007", "999999999999999", "1000000000000000", "", " 1", "-1", "1.5", "x", "\u0663", "\u00b2", "1_0",
]  # fmt: skip


@examples(200)
@given(
    st.one_of(
        st.lists(st.sampled_from(_CELLS), min_size=1, max_size=4),
        st.lists(st.sampled_from(["1", "20", "300"]), min_size=1),
        st.lists(st.integers(-2, 10**16), min_size=1, max_size=4),
        st.lists(st.sampled_from(["1", 1, 1.0, None, True]), min_size=1, max_size=3),
    )
)
def test_columns_of_plain_numbers_are_read_at_once(cells: list[Any]) -> None:
    """Only texts of 1 to 15 ASCII digits, or integers, are read at once, each as a reader of single cells would."""
    one_kind = {type(cell) for cell in cells} in ({str}, {int})
    plain_texts = all(str(cell).isascii() and str(cell).isdigit() and len(str(cell)) <= 15 for cell in cells)
    most_s = 100 * 366 * 86_400
    if not one_kind or not plain_texts:
        assert (table_reader._plain_seconds(cells), table_reader._plain_ids(cells)) == (None, None)
        return
    numbers = [int(cell) for cell in cells]
    in_range = all(0 < number < most_s for number in numbers)
    assert table_reader._plain_seconds(cells) == (numbers if in_range else None)
    assert table_reader._plain_ids(cells) == [JobId(number) for number in numbers]


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 3)), max_size=8))
def test_processors_in_use_equal_those_of_a_slow_count(jobs: list[tuple[int, int, int]]) -> None:
    """Ends come before starts at one instant, and starts are in the order of the jobs."""
    found = list(procs_in_use((at, run_s, n, number) for number, (at, run_s, n) in enumerate(jobs)))
    expected = []
    used = 0
    for now in range(12):
        for number, (at, run_s, n) in enumerate(jobs):
            if at + run_s == now:
                used -= n
                expected.append((used, -n, number))
        for number, (at, _, n) in enumerate(jobs):
            if at == now:
                used += n
                expected.append((used, n, number))
    assert found == expected
