"""Tables for other programs: what a name may do in them."""

from __future__ import annotations

import csv
import io

import polars as pl
import pytest

from pybatsched.campaign.table import written


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "=1\n=2"])
def test_no_name_is_a_formula_in_a_spreadsheet(name: str) -> None:
    table = pl.DataFrame({"workload": [name, "plain", None], "wait_s_mean": [-1.5, 2.0, None]})
    rows = list(csv.reader(io.StringIO(written(table, "csv"), newline="")))
    assert rows == [["workload", "wait_s_mean"], [f"'{name}", "-1.5"], ["plain", "2.0"], ["", ""]]


def test_no_name_is_markup_in_markdown() -> None:
    table = pl.DataFrame({"workload": ["a|b\n<img src=x onerror=y>"]})
    assert written(table, "markdown").splitlines()[2:] == ["| a\\|b &lt;img src=x onerror=y> |"]
