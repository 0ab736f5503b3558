"""The gate on instruction counts: what passes, and what it reports."""

import shutil
import sys
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


def run(
    gate: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    *arguments: str,
    counts: dict[str, int],
) -> tuple[object, str]:
    """Run the command with counts of our own, on a file of our own."""
    monkeypatch.setattr(gate, "KEPT", tmp_path / "instructions.json")
    monkeypatch.setattr(gate, "counted", lambda _sections: counts)
    monkeypatch.setattr(shutil, "which", lambda _name: "/somewhere/valgrind")
    monkeypatch.setattr(sys, "argv", ["instructions.py", *arguments])
    try:
        gate.main()
    except SystemExit as end:
        return end.code, capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_stored_counts_are_compared_in_the_next_run(
    gate: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def count(*arguments: str, **counts: int) -> tuple[object, str]:
        return run(gate, monkeypatch, capsys, tmp_path, *arguments, counts=counts)

    code, output = count(easy=1000, codec=10)
    assert code == 0
    assert "instructions.json has no figures of this Python: nothing was compared" in output
    assert count("--write", easy=1000, codec=10)[0] == 0
    assert count(easy=1000, codec=10)[0] == 0
    assert count(easy=1031, codec=10)[0] == "over 3 % more instructions than kept: easy"
    # Keeping one section leaves the others, and those of other interpreters, as they were.
    assert count("--write", "easy", easy=900)[0] == 0
    assert count(easy=1000, codec=11)[0] == "over 3 % more instructions than kept: easy, codec"


def test_without_valgrind_it_says_so(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["instructions.py"])
    with pytest.raises(SystemExit, match="valgrind is not installed"):
        gate.main()


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
