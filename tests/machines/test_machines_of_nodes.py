"""Machines that are described by their nodes, as a setting and as a platform file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.machines.nodes import machine_of_nodes

MIXED = "2 x 2 cores 64 GB, 1 x 4 cores 128.5 GB 4 gpus:a100 1 gpu features ib&nvme weight 3, 1 x 1 core"


def test_the_hosts_have_the_properties_of_their_node() -> None:
    platform = names.of_nodes(MIXED).read()
    shown = [
        tuple(host.properties.get(key) for key in ("node", "memory_gb", "gpus", "features", "weight"))
        for host in platform.compute
    ]
    large = ("2", "128.5", "a100:4,1", "ib,nvme", "3")
    assert shown == [
        *[("0", "64", None, None, None)] * 2,
        *[("1", "64", None, None, None)] * 2,
        *[large] * 4,
        ("3", None, None, None, None),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "4 x 16", "0 x 4 cores", "4 x 0 cores", "4 nodes", "4 x 16 cores 64", "4 x 16 cores, ", "4 x 16 cores 2 tpus"],
)
def test_an_invalid_description_shows_its_group(text: str) -> None:
    with pytest.raises(InputError, match="nodes: expected groups of nodes such as '4 x 16 cores 64 GB, "):
        machine_of_nodes(text)


def test_the_setting_and_the_written_platform_give_the_same_schedule(tmp_path: Path) -> None:
    workload = {
        "nb_res": 9,
        "jobs": [
            {"id": "a", "subtime": 0, "res": 1, "walltime": 9, "profile": "d", "gpus_per_node": "a100:3"},
            {"id": "b", "subtime": 1, "res": 1, "walltime": 9, "profile": "d", "gpus_per_node": "a100:2"},
            {"id": "c", "subtime": 2, "res": 2, "walltime": 9, "profile": "d", "memory_gb": 30},
        ],
        "profiles": {"d": {"type": "delay", "delay": 5}},
    }
    (tmp_path / "w.json").write_text(json.dumps(workload))
    made = run_cli("platform", "generate", "--nodes", MIXED, "--output", "nodes.xml", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    for name, machine in (("setting", ("--nodes", MIXED)), ("file", ("-p", "nodes.xml"))):
        run = run_cli("simulate", "-w", "w.json", *machine, "--policy", "easy", "-e", name, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    rows = (tmp_path / "setting_jobs.csv").read_text()
    assert rows == (tmp_path / "file_jobs.csv").read_text()
    starts = {row.split(",")[0]: (row.split(",")[8], row.split(",")[14]) for row in rows.splitlines()[1:]}
    assert starts == {"a": ("0.000000", "4"), "b": ("5.000000", "4"), "c": ("2.000000", "0-1")}


def test_an_invalid_request_is_an_error_before_the_run(tmp_path: Path) -> None:
    job = {"id": "a", "subtime": 0, "res": 1, "walltime": 9, "profile": "d", "gpus": -1}
    content = {"nb_res": 1, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 5}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    for machine, code in ((("--nodes", "1 x 1 core"), 2), (("--procs", "1"), 0)):
        run = run_cli("simulate", "-w", "w.json", *machine, "--policy", "easy", "-e", "out", cwd=tmp_path)
        assert run.returncode == code
        assert ('w.json: job "a", field gpus: expected a number of GPUs' in run.stderr) == bool(code)


def test_platform_generate_takes_a_name_or_nodes() -> None:
    for args in ((), ("curie", "--nodes", "1 x 1 core")):
        run = run_cli("platform", "generate", *args, "--output", "-")
        assert run.returncode == 2
        assert "expected either the name of a machine or --nodes" in run.stderr
