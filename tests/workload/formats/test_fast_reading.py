"""Fast reading equals careful or slow reading, with the same errors."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.logs import line

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.job_columns import plains
from pybatsched.workload.logs.cells import quick_numbers
from pybatsched.workload.logs.swf import FIELDS, read_swf
from pybatsched.workload.logs.table import procs_in_use
from pybatsched.workload.report import Report
from pybatsched.workload.walltimes import plain

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
_CHUNKS = st.tuples(st.lists(_LINES, max_size=6), st.sampled_from(["\n", "\n", "\r\n"]), st.booleans())


def _read_slowly(text: bytes) -> tuple[list[tuple[Any, ...]], dict[str, list[int]], str]:
    """Return the fields and lines of jobs, the lines of each fault, and the first fault with what was found."""
    rows: list[tuple[Any, ...]] = []
    short: dict[str, list[int]] = {}
    wrong: dict[str, list[int]] = {}
    first: dict[str, str] = {}
    for number, raw in enumerate(text.split(b"\n"), 1):
        words = raw.split()
        if not words or words[0].startswith(b";"):
            continue
        if len(words) < 18:
            rule = f"expected at least 18 fields, found {len(words)}"
            short.setdefault(rule, []).append(number)
            first.setdefault("short", f"line {number}: {rule}")
            continue
        row: list[Any] = []
        for index, (word, field) in enumerate(zip(words, FIELDS, strict=False)):
            if field.kind == "a label":
                name = word.decode()
                row.append(str(int(name)) if re.fullmatch("-?[0-9]{1,15}", name) else name)
                row[-1] = None if row[-1] == "-1" else row[-1]
                continue
            try:
                value = math.nan if b"_" in word else float(word)
            except ValueError:
                value = math.nan
            if not abs(value) < 2**53 or (field.kind == "a whole number" and value != int(value)):
                bound = " below 2^53" if abs(value) >= 2**53 and b"n" not in word.lower() else ""
                rule = f"field {index + 1} ({field.name}): expected {field.kind}{bound}"
                wrong.setdefault(rule, []).append(number)
                first.setdefault("wrong", f"line {number}: {rule}, found {word.decode()}")
                break
            row.append(None if value == -1 and index else value)
        else:
            rows.append((*row, number))
    return rows, short | wrong, first.get("short") or first.get("wrong") or ""


@given(_CHUNKS)
@examples(400)
def test_reading_a_log_at_once_equals_reading_it_slowly(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[list[str], str, bool]
) -> None:
    lines, end, ends_with_line = drawn
    text = ("; a log" + end + end.join(lines) + end * ends_with_line).encode()
    file = tmp_path_factory.getbasetemp() / "drawn.swf"
    file.write_bytes(text)
    rows, bad, first = _read_slowly(text)
    if any(b"\0" in raw and 0 < len(raw.split()) < 18 for raw in text.split(b"\n")):
        with pytest.raises(InputError, match="found a binary file|expected at least 18 fields"):
            read_swf(file, lenient=True)
        return
    found = read_swf(file, lenient=True)
    assert found.jobs.select(*(field.column for field in FIELDS), "line").rows() == rows
    assert {rule: (rule_count.count, rule_count.places) for rule, rule_count in found.bad.items()} == {
        rule: (len(numbers), numbers[:5]) for rule, numbers in bad.items()
    }
    if first:
        with pytest.raises(InputError) as caught:
            read_swf(file)
        assert str(caught.value) == f"{file}: {first}"
    else:
        assert read_swf(file).jobs.equals(found.jobs)


def test_lines_that_only_together_have_the_fields_of_jobs(tmp_path: Path) -> None:
    """The lines end where jobs could end, or where a name may be: they must not be taken for jobs."""
    fields = line().split()
    file = tmp_path / "log.swf"
    for lines, text in (
        ([fields[:12], [*fields[12:], *fields]], "line 1: expected at least 18 fields, found 12"),
        ([[*fields, ";", *fields[:11]], fields[12:]], "line 2: expected at least 18 fields, found 6"),
    ):
        file.write_bytes(b"".join(f"{' '.join(row)}\n".encode() for row in lines))
        with pytest.raises(InputError) as caught:
            read_swf(file)
        assert str(caught.value) == f"{file}: {text}"


@given(st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats())))
@examples(200)
def test_fast_and_careful_reading_of_values_are_equal(values: list[float]) -> None:
    assert list(map(repr, plains(pl.Series(values, dtype=pl.Float64)))) == [repr(plain(value)) for value in values]


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
@given(st.one_of(st.lists(st.sampled_from(_CELLS)), st.lists(st.integers(-2, 10**16)), st.lists(st.floats(-1, 1e16))))
def test_plain_numbers_are_read_at_once(cells: list[Any]) -> None:
    """Only texts of 1 to 15 ASCII digits, or numbers, are read at once, each as a reader of single cells would."""
    quick = quick_numbers(pl.Series(cells, dtype=None if cells else pl.String), 1, 1e12, are_whole=True)
    expected: list[float | None] = []
    for cell in cells:
        is_plain = not isinstance(cell, str) or re.fullmatch("[0-9]{1,15}", cell)
        value = float(cell) if is_plain else None
        expected.append(value if value is not None and 1 <= value < 1e12 and value.is_integer() else None)
    assert quick.to_list() == expected


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 3)), max_size=8))
def test_processors_in_use_equal_those_of_a_slow_count(jobs: list[tuple[int, int, int]]) -> None:
    """Ends come before starts at one instant, and starts are in the order of the jobs."""
    rows = [(float(at), float(run_s), n, number) for number, (at, run_s, n) in enumerate(jobs)]
    schema = {"started_at": pl.Float64, "run_s": pl.Float64, "n_procs": pl.Int64, "line": pl.Int64}
    found = procs_in_use(pl.DataFrame(rows, schema=schema, orient="row")).rows()
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
