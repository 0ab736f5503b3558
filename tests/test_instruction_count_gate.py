"""The gate on instruction counts: what passes, and what it reports."""

from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT, module_of


@pytest.fixture(scope="module")
def gate() -> Any:
    return module_of("instructions", ROOT / "benchmarks" / "instructions.py")


def test_three_per_cent_more_pass_and_one_more_instruction_does_not(gate: Any) -> None:
    rows, worse = gate.compared(
        {"easy": 103_000, "codec": 103_001, "dbf": 90_000}, dict.fromkeys(("easy", "codec", "dbf"), 100_000)
    )
    assert worse == ["codec"]
    assert rows == [
        ("easy", "103,000", "100,000", "+3.0 %"),
        ("codec", "103,001", "100,000", "+3.0 %  TOO MANY"),
        ("dbf", "90,000", "100,000", "-10.0 %"),
    ]


def test_a_section_without_a_figure_is_new_and_no_failure(gate: Any) -> None:
    assert gate.compared({"ujfb": 5}, {}) == ([("ujfb", "5", "", "new")], [])


def test_summaries_of_cachegrind_are_read_and_other_files_are_errors(gate: Any, tmp_path: Path) -> None:
    (tmp_path / "1").write_text("desc: I1 cache\nevents: Ir\nfl=a.c\n1 5\nsummary: 12345\n")
    assert gate._total(str(tmp_path / "1")) == 12345
    (tmp_path / "2").write_text("desc: I1 cache\nevents: Ir\n1 5\n")
    with pytest.raises(SystemExit, match="expected a summary of cachegrind in the last line, found '1 5'"):
        gate._total(str(tmp_path / "2"))


def test_every_kept_interpreter_has_every_section(gate: Any, tmp_path: Path) -> None:
    kept = gate.json.loads(gate.KEPT.read_text())
    assert kept
    prepared = set(gate.sections(tmp_path))
    assert {python: set(figures) for python, figures in kept.items()} == dict.fromkeys(kept, prepared)
