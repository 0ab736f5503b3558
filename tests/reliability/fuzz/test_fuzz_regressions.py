"""Inputs found by fuzzing that once gave a traceback, with the error that is expected now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
from support.campaigns import scanned
from support.process import run_cli

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for

DEEP = "[" * 100_000 + "]" * 100_000  # too deep for every Python
LONG = "9" * 5000
BEGIN = '{"type": "machine_unavailable", "resources": "0", "timestamp": '


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'{{"type": {DEEP}}}', "e.txt: line 1: expected a JSON object: maximum recursion depth exceeded"),
        (BEGIN + "1" + "0" * 400 + "}", "e.txt: line 1: field timestamp: expected seconds, 0 or more, found 1000"),
        (BEGIN + "true}", "e.txt: line 1: field timestamp: expected seconds, 0 or more, found True"),
    ],
)
def test_external_events(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "e.txt").write_text(line)
    done = run_cli("workload", "events", "e.txt", "--for", "batsim5", "--output", "out.txt", cwd=tmp_path)
    assert (done.returncode, done.stderr[: len(expected) + 12]) == (2, f"pybatsched: {expected}")


def test_a_profile_type_that_is_not_a_string(tmp_path: Path) -> None:
    profiles: dict[str, Any] = {
        "p": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0},
        "q": {"type": ["composed"], "seq": ["p"]},
    }
    jobs = [{"id": name, "subtime": 0, "res": 1, "profile": name} for name in profiles]
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    done = run_cli("workload", "lint", "w.json", cwd=tmp_path)
    assert done.returncode == 2
    assert 'w.json: profile "q", field type: expected ' in done.stderr


@pytest.mark.parametrize("text", [f"[policy.easy]\na = {LONG}\n", f"[policy.easy]\na = {DEEP}\n"])
def test_config_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    done = run_cli("--policy", "easy", "--config", "c.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("pybatsched: --config c.toml: ")


@pytest.fixture
def records(tmp_path: Path) -> list[dict[str, Any]]:
    journal = JournalWriter(tmp_path / "run.pbj")
    session = Session(plan_for("easy"), journal=journal)
    FakeBatsim(Workload().job("a", n=1, s=5).job("b", n=4, s=5, at=1), 4).run(session.handle)
    session.close("ended")
    unpacker = msgpack.Unpacker()
    unpacker.feed((tmp_path / "run.pbj").read_bytes())
    return list(unpacker)


@pytest.mark.parametrize(
    ("kind", "change", "garbled"),
    [
        ("request", {"n": "1"}, "n"),
        ("request", {"bytes": [1]}, "bytes"),
        ("reply", {"bytes": 3}, "bytes"),
        ("reply", {"reasons": 0.5}, "reasons"),
        ("reply", {"reasons": {"a": 1}}, "reasons"),
        ("reply", {"reasons": [1]}, "reasons"),
        ("reply", {"notes": [["0", "w0!a", "x"]]}, "notes"),
        ("reply", {"notes": [[0, "w0!a"]]}, "notes"),
    ],
)
@pytest.mark.parametrize("args", [("replay",), ("explain", "w0!a"), ("explain", "w0!a", "--why-not-earlier")])
def test_members_of_journals(
    tmp_path: Path, records: list[dict[str, Any]], kind: str, change: Mapping[str, Any], garbled: str, args: Any
) -> None:
    next(one for one in records if one["record"] == kind).update(change)
    (tmp_path / "run.pbj").write_bytes(b"".join(map(msgpack.packb, records)))
    done = run_cli(args[0], "run.pbj", *args[1:], cwd=tmp_path)
    message = f"pybatsched: 'run.pbj' is damaged: in a record, '{garbled}' is missing or invalid\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_key_of_a_journal_that_is_a_list(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    raw = msgpack.packb(records[0])
    (tmp_path / "run.pbj").write_bytes(raw + b"\x81\x91\x01\x01")
    with pytest.raises(InputError, match=f"the record at byte {len(raw)} cannot be read "):
        list(JournalReader(tmp_path / "run.pbj").exchanges())


def test_a_journal_that_has_lost_a_submission(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    """The job is killed, after which it may wait again; but its size is unknown."""
    kept = []
    for record in records:
        if record["record"] == "request":
            record["bytes"] = record["bytes"].replace(b'"JOB_SUBMITTED"', b'"JOB_LOST"')
            record["bytes"] = record["bytes"].replace(b"COMPLETED_SUCCESSFULLY", b"COMPLETED_KILLED")
        kept.append(record)
    note = {
        "timestamp": 0.0,
        "type": "SET_JOB_METADATA",
        "data": {"job_id": "dyn!a", "metadata": "parent=w0!a;segment=1"},
    }
    reply = next(one for one in kept if b"EXECUTE_JOB" in one.get("bytes", b""))
    result = json.loads(reply["bytes"])
    result["events"].append(note)
    reply["bytes"] = json.dumps(result).encode()
    (tmp_path / "run.pbj").write_bytes(b"".join(map(msgpack.packb, kept)))
    done = run_cli("explain", "run.pbj", "w0!a", "--why-not-earlier", cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("points", 0, "address"), None, "Object missing required field `address` - at `$.points[0]`"),
        (("points", 1, "options"), [], "Expected `object`, got `array` - at `$.points[1].options`"),
        (("points", 1, "seed"), "x", "Expected `int`, got `str` - at `$.points[1].seed`"),
        (("points", 0, "repeat"), 10**60, "Expected `int` <= 9223372036854775807 - at `$.points[0].repeat`"),
        (("points",), None, "Object missing required field `points`"),
        (("spec", "workload", 0), 3, "Expected `object`, got `int` - at `$.spec.workload[0]`"),
        (("spec", "baseline"), 1, "Expected `str`, got `int` - at `$.spec.baseline`"),
    ],
)
def test_manifests(tmp_path: Path, place: tuple[Any, ...], value: Any, expected: str) -> None:
    path = scanned(tmp_path / "c", n_weeks=1) / "manifest.json"
    content = json.loads(path.read_text())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    path.write_text(json.dumps(content))
    for command in ("status", "table"):
        done = run_cli("campaign", command, "c", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, f"pybatsched: {path}: {expected}\n")


def test_a_manifest_without_end(tmp_path: Path) -> None:
    path = scanned(tmp_path / "c", n_weeks=1) / "manifest.json"
    path.write_text(DEEP)
    with pytest.raises(InputError, match="expected JSON; "):
        Store(tmp_path / "c").manifest()


@pytest.mark.parametrize("value", ["1", [1], "LONG", True, "DEEP"])
def test_a_cell_with_figures_that_are_no_numbers_is_not_done(tmp_path: Path, value: Any) -> None:
    folder = scanned(tmp_path / "c", n_weeks=1)
    path = folder / "cells" / f"{0:064x}.json"
    assert Store(folder).result(f"{0:064x}") is not None
    text = json.dumps({**json.loads(path.read_text()), "figures": {"makespan_s": value}})
    path.write_text(text.replace('"LONG"', "1" + "0" * 400).replace('"DEEP"', DEEP))
    assert Store(folder).result(f"{0:064x}") is None
    assert run_cli("campaign", "table", "c", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("key", ["policy", "\ud800"])
def test_a_lone_surrogate_in_a_key_of_a_manifest(tmp_path: Path, key: str) -> None:
    path = scanned(tmp_path / "c", n_weeks=1) / "manifest.json"
    content = json.loads(path.read_text())
    content["points"][0] = {"\ud800": 1, key: content["points"][0].pop("policy")} | content["points"][0]
    path.write_text(json.dumps(content))
    for command in ("status", "table"):
        done = run_cli("campaign", command, "c", cwd=tmp_path)
        assert (done.returncode, done.stderr.startswith(f"pybatsched: {path}: ")) == (2, True)


def test_a_cell_with_a_lone_surrogate_in_its_figures_is_not_done(tmp_path: Path) -> None:
    folder = scanned(tmp_path / "c", n_weeks=1)
    path = folder / "cells" / f"{0:064x}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "figures": {"\ud800": 1}}))
    assert Store(folder).result(f"{0:064x}") is None
    assert run_cli("campaign", "table", "c", cwd=tmp_path).returncode == 0
