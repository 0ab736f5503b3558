"""Paths: the project, its fixtures, and optional data beside it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "conformance" / "recordings"
RECORDED = FIXTURES / "v4"
PUSHY = ROOT / "tests" / "support" / "pushy.py"
WAITING = ROOT / "tests" / "support" / "waiting.py"
GOLDEN = Path(os.environ.get("PYBATSCHED_GOLDEN", ROOT.parent / "shared" / "golden"))
TRACES = Path(os.environ.get("PYBATSCHED_TRACES", ROOT.parent / "shared" / "traces"))
SHARED_CASES = ROOT.parent / "shared" / "cases"


def module_of(name: str, file: Path) -> Any:
    """Import a file at any path as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
