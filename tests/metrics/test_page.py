"""The examples of docs/metrics.md are executed, in order."""

from __future__ import annotations

import re

from support.places import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def test_every_example_holds() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/metrics.md", "exec"), names)
