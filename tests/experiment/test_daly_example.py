"""The study of checkpoint intervals by whole simulations: the minimum is at Daly's interval."""

from __future__ import annotations

import pytest
from support.places import ROOT, module_of

STUDY = module_of("daly", ROOT / "examples" / "daly.py")


@pytest.mark.parametrize("mtbf_h", STUDY.MTBF_H)
def test_the_best_interval_is_dalys(mtbf_h: float) -> None:
    """The size of `--quick`: 100 failures for each of nine intervals. The minimum is within 10 %."""
    assert STUDY.minimum(STUDY.overheads(mtbf_h * 3600.0, 100)) == pytest.approx(1.0, abs=0.1)
