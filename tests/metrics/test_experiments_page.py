"""The page about experiments has the columns of a comparison as the code explains them."""

from __future__ import annotations

import re

from support.places import ROOT

from pybatsched.metrics.compare.bootstrap import COLUMNS


def test_the_page_explains_each_column() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, flags=re.MULTILINE)
    assert dict(rows) == COLUMNS
