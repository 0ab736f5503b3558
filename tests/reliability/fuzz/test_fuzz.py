"""20,000 mutations in every test run, and the fuzzer on known defects."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from support import patience

from pybatsched.errors import InputError, Interrupted, PolicyError, PybatschedError
from reliability.cases import Dice, draw
from reliability.fuzz import __main__ as fuzz, targets as fuzzing
from reliability.fuzz.mutations import JSON, TEXT, mutated
from reliability.fuzz.targets import Target, little_memory, outcome, run

#: Where the mutations go: the targets of a group whose names begin so, and how many. 20,000 in all.
SHARES = [
    ("messages", ("codec4", "handshake"), 8_200),
    ("messages", ("codec5",), 7_580),
    ("messages", ("session4", "simulator4"), 1_000),
    ("messages", ("session5", "simulator5"), 1_000),
    ("files", ("swf", "slurm", "workload", "simulated"), 850),
    ("files", ("platform", "events", "journal", "campaign", "config"), 600),
    ("files", ("summary", "run", "manifest", "cell"), 450),
    ("files", ("tables", "json-tables", "parquet-tables", "mappings"), 300),
    ("server", ("",), 20),
]


@pytest.mark.parametrize(("group", "begins", "n"), SHARES)
def test_only_documented_errors_are_raised(group: str, begins: tuple[str, ...], n: int) -> None:
    targets = {name: pair for name, pair in fuzz.GROUPS[group]().items() if name.startswith(begins)}
    tallies = []
    with little_memory():
        for target, share in fuzz.shared(targets, n):
            tallies.append(run(target, share, seed=20))
    assert [finding.text() for tally in tallies for finding in tally.findings] == []
    assert sum(tally.n_mutations for tally in tallies) == n
    assert {tally.target for tally in tallies} == {*targets}


def test_every_target_gets_mutations() -> None:
    assert sum(n for _, _, n in SHARES) == 20_000
    for group, made in fuzz.GROUPS.items():
        begins = tuple(begin for other, some, _ in SHARES for begin in some if other == group)
        assert all(name.startswith(begins) for name in made())


def _target(feed: object, seed: bytes = b'{"now": 1, "events": []}') -> Target:
    def pieces(dice: Dice) -> tuple[Sequence[bytes], Iterator[bytes]]:
        return (b"lead",), iter([mutated(dice, seed, seed)])

    assert callable(feed)
    return Target("made-up", pieces, feed)


@pytest.mark.parametrize("n", [1, 3000])
def test_a_finding_is_shrunk_printed_and_kept(n: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        for raw in pieces:
            if b"00" in raw and len(raw) >= n:
                raise KeyError("00")

    monkeypatch.chdir(tmp_path)
    target = _target(feed, b'{"now": 1, "events": []}'.rjust(n))
    tally = run(target, 500, seed=1)
    (finding,) = tally.findings
    assert (len(finding.pieces), len(finding.pieces[0])) == (1, max(n, 2))
    assert tally.outcomes["FOUND"] > 1  # the others are the same one
    assert tally.n_mutations == tally.n_cases == 500
    assert f"made-up, --seed 1, case {finding.index}" in finding.text()
    # The test is a whole one, and fails as long as this is found.
    again = ["--replay", str(finding.keep())]
    monkeypatch.setattr(fuzz, "GROUPS", {"messages": lambda: {"made-up": (target, 1.0)}})
    with pytest.raises(KeyError, match="00"):
        fuzz.main(again)
    monkeypatch.setattr(fuzz, "GROUPS", {"messages": lambda: {"made-up": (_target(list), 1.0)}})
    assert fuzz.main(again) == 0


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (InputError("x"), ""),
        (InputError(" "), "without a word"),
        (PybatschedError("x"), "of no family"),
        (PolicyError("x", policy="easy", rule="r"), "a policy of ours is blamed"),
        (FileNotFoundError(2, "no", "f"), "no"),
        (PermissionError(13, "no", "f"), ""),
        (RecursionError("deep"), "deep"),
        (SystemExit(3), "3"),
    ],
)
def test_what_is_a_finding(error: BaseException, found: str) -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        raise error

    tally = run(_target(feed), 1, seed=1)
    assert [found in str(one.error) for one in tally.findings] == ([True] if found else [])


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(15)])
def test_a_signal_ends_it(stop: BaseException) -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        raise stop

    with pytest.raises(type(stop)):
        run(_target(feed), 1, seed=1)


def test_work_without_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        while True:
            with contextlib.suppress(Exception):  # as code that catches all errors does
                sum(range(100))

    monkeypatch.setattr(fuzzing, "CPU_S", 0.05)
    (finding,) = run(_target(feed), 1, seed=1).findings
    assert isinstance(finding.error, patience.TooMuchWorkError)


def test_too_much_memory_is_a_finding() -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        bytearray(2**28)  # more than this process may have left over from other tests

    with little_memory(2**25):
        (finding,) = run(_target(feed), 1, seed=1).findings
    assert isinstance(finding.error, MemoryError)
    assert outcome(_target(feed), []) == fuzzing.ACCEPTED  # the limit is removed again


def test_the_same_seed_gives_the_same_cases() -> None:
    for group in ("messages", "files"):
        for target, _ in fuzz.GROUPS[group]().values():
            both: list[list[tuple[Sequence[bytes], bytes]]] = [[], []]
            for cases in both:

                def play(batch: bytes) -> None:
                    cases.extend((lead, next(more)) for lead, more in target.cases(batch))  # noqa: B023

                draw(target.batches(), f"7 {target.name}", 2, play)
            assert both[0] == both[1]
            assert len(set(map(repr, both[0]))) > 4


@pytest.mark.parametrize("mutators", [JSON, TEXT])
def test_every_mutator_changes_something_and_none_fails(mutators: Sequence[object]) -> None:
    samples = (b"", b"\0", b"{}", b'{"a": [1, "x", null], "b": {"c": -2.5e3}}', b"1 2 3\nx = 4\n", b"\xff" * 9)
    for mutator in dict.fromkeys(mutators):
        assert callable(mutator)
        made = [
            mutator(Dice(random.Random(n).randbytes(60) + bytes(99)), raw, samples[3])
            for n in range(40)
            for raw in samples
        ]
        assert any(one not in samples for one in made)


def test_the_command_reports_findings_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def feed(pieces: Iterable[bytes]) -> None:
        raise KeyError(*pieces)

    monkeypatch.chdir(tmp_path)
    made = {"made-up": (_target(feed), 1.0)}
    monkeypatch.setattr(fuzz, "GROUPS", {"messages": lambda: made})
    assert fuzz.main(["--messages", "3", "--seed", "5"]) == 1
    assert re.search(r"\| made-up \| 3 +\| 3 +\| 0 +\| FOUND 3 +\|", output := capsys.readouterr().out)
    assert "def test_found_made_up_5_0() -> None:" in output
    assert "kept in build/fuzz/made-up-5-0.py" in output
    monkeypatch.setattr(fuzz, "GROUPS", {"messages": lambda: {"made-up": (_target(list), 1.0)}})
    assert fuzz.main(["--messages", "3"]) == 0
    assert re.search(r"\| made-up \| 3 +\| 3 +\| 3 +\| none +\|", capsys.readouterr().out)
