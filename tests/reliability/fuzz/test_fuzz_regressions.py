"""Inputs found by fuzzing that once gave a traceback, with the error that is expected now."""

from __future__ import annotations

import json
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


def test_a_config_file_with_a_long_number(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"[policy.easy]\na = {'9' * 5000}\n")
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


@pytest.mark.parametrize("figures", [*({"makespan_s": one} for one in ("1", [1], "LONG", True, "DEEP")), {"\ud800": 1}])
def test_a_cell_with_damaged_figures_is_not_done(tmp_path: Path, figures: dict[str, Any]) -> None:
    folder = scanned(tmp_path / "c", n_weeks=1)
    path = folder / "cells" / f"{0:064x}.json"
    assert Store(folder).result(f"{0:064x}") is not None
    text = json.dumps({**json.loads(path.read_text()), "figures": figures})
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
