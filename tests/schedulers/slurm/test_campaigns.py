"""Campaigns with policy slurm: the machine of slurm.conf, sweeps over its parameters, and files that change."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from support.places import ROOT
from support.process import run_cli

CONF = """\
ClusterName=small
SelectType=select/linear
include more
PartitionName=batch Nodes=ALL Default=YES MaxTime=10
"""
CAMPAIGN = """\
name = "sweep"
[[workload]]
name = "random"
generate = { model = "lublin", procs = 4, jobs = 6, load = 0.8 }
[[policy]]
name = "slurm"
options = { slurm_conf = "files/cluster.txt", bf_interval = [10, 30] }
"""


def done(folder: Path) -> str:
    found = run_cli("campaign", "run", str(folder / "sweep.toml"), "--output", str(folder / "out"), "--resume")
    assert found.returncode == 0, found.stderr
    return found.stderr.splitlines()[-1].partition(": ")[2].partition(";")[0]


def test_files_are_found_beside_the_campaign_and_cells_run_again_if_they_change(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "cluster.txt").write_text(CONF)
    (tmp_path / "files" / "more").write_text("NodeName=n[1-4]\n")
    (tmp_path / "files" / "gres.conf").write_text("")
    (tmp_path / "sweep.toml").write_text(CAMPAIGN)
    assert done(tmp_path) == "2 of 2 cells done (0 before), 0 failed"
    assert done(tmp_path) == "2 of 2 cells done (2 before), 0 failed"
    (tmp_path / "files" / "gres.conf").write_text("# changed\n")
    assert done(tmp_path) == "2 of 2 cells done (0 before), 0 failed"
    (tmp_path / "files" / "cluster.txt").write_text(CONF + "KillWait=10\n")
    assert done(tmp_path) == "2 of 2 cells done (0 before), 0 failed"
    (tmp_path / "files" / "cluster.txt").unlink()
    found = run_cli("campaign", "run", str(tmp_path / "sweep.toml"), "--output", str(tmp_path / "out"), "--resume")
    assert "files/cluster.txt: no such file" in found.stderr


@pytest.mark.parametrize("line", ["options = { seed = [1] }", ""])
def test_other_policies_need_a_platform(tmp_path: Path, line: str) -> None:
    text = CAMPAIGN[: CAMPAIGN.index("[[policy]]")] + '[[policy]]\nname = "easy"\n' + line
    (tmp_path / "sweep.toml").write_text(text)
    found = run_cli("campaign", "run", str(tmp_path / "sweep.toml"), "--output", str(tmp_path / "out"))
    assert found.returncode != 0
    assert "platform" in found.stderr


def test_the_example_compares_two_weights(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "slurm-sweep.toml", tmp_path / "sweep.toml")
    shutil.copytree(ROOT / "examples" / "cluster", tmp_path / "cluster")
    assert tomllib.loads((tmp_path / "sweep.toml").read_text()).keys() == {"name", "workload", "policy"}
    assert done(tmp_path) == "2 of 2 cells done (0 before), 0 failed"
    table = run_cli("campaign", "table", str(tmp_path / "out"), "--by", "options", "--figures", "mean_wait_s")
    assert table.returncode == 0, table.stderr
    waits = {line.split()[-1] for line in table.stdout.splitlines()[1:]}
    assert len(waits) == 2
