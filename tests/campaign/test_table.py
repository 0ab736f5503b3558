"""Tables of campaigns for other programs: names are escaped, and untrusted files are rejected."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.logs import line, log, sacct, sacct_line
from support.process import run_cli

from pybatsched.campaign.store import Store
from pybatsched.campaign.table import written


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "=1\n=2"])
def test_no_name_is_a_formula_in_a_spreadsheet(name: str) -> None:
    table = pl.DataFrame({"workload": [name, "plain", None], "mean_wait_s": [-1.5, 2.0, None]})
    rows = list(csv.reader(io.StringIO(written(table, "csv"), newline="")))
    assert rows == [["workload", "mean_wait_s"], [f"'{name}", "-1.5"], ["plain", "2.0"], ["", ""]]


def test_no_name_is_markup_in_markdown() -> None:
    table = pl.DataFrame({"workload": ["a|b\n<img src=x onerror=y>"]})
    assert written(table, "markdown").splitlines()[2:] == ["| a\\|b &lt;img src=x onerror=y> |"]
    table = pl.DataFrame({"options": ["![x](http://192.0.2.1/)[y](javascript:z)", '{"a": [1, 2]}']})
    lines = ["| ![x]\\(http://192.0.2.1/)[y]\\(javascript:z) |", '| {"a": [1, 2]} |']
    assert written(table, "markdown").splitlines()[2:] == lines


POINT = {"address": "a1", "workload": "w", "platform": "p", "policy": "easy", "options": {}, "seed": 1, "repeat": 0}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({}, "missing required field `name`"),
        ({"spec": []}, "Expected `object`, got `array` - at `$.spec`"),
        ({"spec": {"workload": [3]}}, "Expected `object`, got `int` - at `$.spec.workload[0]`"),
        ({"spec": {"workload": [], "baseline": 1}}, "Expected `str`, got `int` - at `$.spec.baseline`"),
        ({"points": [5]}, "Expected `object`, got `int` - at `$.points[0]`"),
        ({"points": [POINT, {}]}, "missing required field `address` - at `$.points[1]`"),
        ({"points": [POINT, POINT | {"options": []}]}, "Expected `object`, got `array` - at `$.points[1].options`"),
        ({"points": [POINT | {"seed": "x"}]}, "Expected `int`, got `str` - at `$.points[0].seed`"),
        ({"points": [POINT | {"repeat": 10**60}]}, "Expected `int` <= 9223372036854775807 - at `$.points[0].repeat`"),
        ({"points": [POINT | {"address": "../../../etc/passwd"}]}, "at `$.points[0].address`"),
        ({"points": [POINT | {"address": "a\0"}]}, "at `$.points[0].address`"),
        ({"points": [POINT | {"address": "a\n"}]}, "at `$.points[0].address`"),
    ],
)
def test_an_untrusted_manifest_cannot_name_files_outside_the_campaign(
    manifest: dict[str, Any], message: str, tmp_path: Path
) -> None:
    about = {"format": "pybatsched-campaign"} | (
        manifest and {"name": "n", "spec": {"workload": []}, "points": []} | manifest
    )
    (tmp_path / "manifest.json").write_text(json.dumps(about))
    done = run_cli("campaign", "status", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr


def test_deeply_nested_untrusted_files_are_input_errors(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    for name in ("manifest.json", "cells/a1.json"):
        (tmp_path / name).write_text("[" * 100_000)
    assert run_cli("campaign", "status", str(tmp_path)).returncode == 2
    assert Store(tmp_path).result("a1") is None
    (tmp_path / "deep.toml").write_text(f"a = {'[' * 100_000}")
    done = run_cli("--policy", "easy", "--config", str(tmp_path / "deep.toml"))
    assert (done.returncode, "deep.toml" in done.stderr) == (2, True)


JOINED = """
name = "joined"
keep = "jobs"
[[workload]]
name = "w"
file = "w.json"
[[platform]]
name = "four"
procs = 4
[[policy]]
name = "fcfs"
"""


def test_kept_jobs_can_be_joined_with_the_table(tmp_path: Path) -> None:
    """The second job waits for 99 s, and both run for 100 s on all processors."""
    jobs = [
        {"id": str(k), "subtime": k, "res": 4, "profile": "p", "walltime": 200, "user": user}
        for k, user in enumerate(("ada", "bob"))
    ]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 100}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    (tmp_path / "s.toml").write_text(JOINED)
    done = run_cli("campaign", "run", "s.toml", "--output", "out", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    points = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert points.columns[:8] == ["workload", "platform", "policy", "options", "seed", "repeat", "family", "address"]
    assert points["family"].to_list() == ["w"]
    kept = pl.read_parquet(tmp_path / "out" / "jobs" / "*.parquet")
    joined = kept.join(points.select("address", "family", "policy"), on="address").sort("job")
    wanted = ("family", "policy", "job", "user", "wait_s", "slowdown", "bounded_slowdown")
    assert joined.select(wanted).rows() == [
        ("w", "fcfs", "w0!0", "ada", 0.0, 1.0, 1.0),
        ("w", "fcfs", "w0!1", "bob", 99.0, 1.99, 1.99),
    ]


def test_kept_jobs_have_the_fields_of_their_logs(tmp_path: Path) -> None:
    """Tables of workloads with other fields have the same columns: they can be read together."""
    sacct(tmp_path, sacct_line("1", AllocTRES="cpu=2,mem=4G,node=1,gres/gpu=3"), name="w.json")
    log(tmp_path, line(1, run=60, queue=7))
    other = JOINED.replace('file = "w.json"', 'file = "w.json"\n[[workload]]\nname = "v"\nfile = "log.swf"')
    (tmp_path / "s.toml").write_text(other)
    done = run_cli("campaign", "run", "s.toml", "--output", "out", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = pl.read_parquet(tmp_path / "out" / "jobs" / "*.parquet").sort("account")
    names = ("account", "partition", "queue", "qos", "exit_state", "status", "gpus", "memory_gb")
    swf, slurm = kept.select(names).to_dicts()
    assert (swf["account"], swf["queue"], swf["exit_state"], swf["gpus"]) == (None, "7", None, None)
    assert tuple(slurm.values()) == ("physics", "main", "main", "normal", "COMPLETED", 1, 3, 2)
