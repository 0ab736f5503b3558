"""Where things lie: the project, its fixtures, and what may be at hand beside it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "conformance" / "recordings"
RECORDED = FIXTURES / "v4"
PUSHY = ROOT / "tests" / "support" / "pushy.py"
WAITING = ROOT / "tests" / "support" / "waiting.py"
GOLDEN = Path(os.environ.get("PYBATSCHED_GOLDEN", ROOT.parent / "shared" / "golden"))
TRACES = Path(os.environ.get("PYBATSCHED_TRACES", ROOT.parent / "shared" / "traces"))
