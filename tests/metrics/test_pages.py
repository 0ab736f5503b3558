"""The examples of docs/metrics.md are executed, in order; its tables and that of docs/experiments.md are the code's."""

from __future__ import annotations

import re

import pytest
from support.api_tables import names_of, with_tables
from support.metric_tables import of_experiments, of_metrics
from support.places import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def test_every_example_holds() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/metrics.md", "exec"), names)


@pytest.mark.parametrize(("page", "made"), [("metrics", of_metrics()), ("experiments", of_experiments())])
def test_the_tables_are_those_of_the_code(page: str, made: dict[str, str]) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert sorted(names_of(text)) == sorted(made)
    assert with_tables(text, made) == text, f"docs/{page}.md is not what the code says: run make api"
