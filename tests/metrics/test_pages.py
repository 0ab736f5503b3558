"""The examples of docs/metrics.md are executed, in order; docs/experiments.md explains each column of a comparison."""

from __future__ import annotations

import re

from support.places import ROOT

from pybatsched.metrics.compare.bootstrap import COLUMNS

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def test_every_example_holds() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/metrics.md", "exec"), names)


def test_the_page_explains_each_column() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", page, flags=re.MULTILINE)
    assert dict(rows) == COLUMNS
