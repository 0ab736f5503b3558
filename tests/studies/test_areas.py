"""Planned areas: by the memory class of each job, over the nodes of the class."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import real

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.platform.groups import nodes_by_memory
from pybatsched.workload.formats import batsim4
from pybatsched.workload.model import Workload
from pybatsched_studies.locality import areas as areas_command, rackham
from pybatsched_studies.locality.areas import planned_areas

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="all" routing="Full">
  {hosts}
  <host id="master_host" speed="1Gf"/>
 </zone>
</platform>
"""


def workload(*jobs: dict[str, Any]) -> Workload:
    rows = [{"id": k, "subtime": 0, "res": 1, "profile": "p", "walltime": 10, **job} for k, job in enumerate(jobs, 1)]
    return Workload(rows, {"p": {"type": "delay", "delay": 5}}, 8, "here")


def platform(path: Path, *hosts: dict[str, str]) -> Path:
    """Write a platform of hosts with these properties."""
    texts = []
    for number, properties in enumerate(hosts):
        inner = "".join(f'<prop id="{name}" value="{value}"/>' for name, value in properties.items())
        texts.append(f'<host id="h{number}" speed="1Gf">{inner}</host>')
    file = path / "platform.xml"
    file.write_text(PLATFORM.format(hosts="\n  ".join(texts)))
    return file


def cores(node: str, memory_gb: str, n: int = 2) -> list[dict[str, str]]:
    return [{"node": node, "memory_gb": memory_gb}] * n


def test_areas_by_class() -> None:
    jobs = (
        {"res": 2, "walltime": 100},  # no need at all: the smallest class
        {"res": 3, "walltime": 7, "input_file": "a", "input_size_gb": 128},
        {"input_file": "b", "input_size_gb": 128.5},
        {"input_file": "c", "input_size_gb": 6.4, "node_memory_gb": 1000},
        {"id": "large", "node_memory_gb": 1025, "walltime": -1},
    )
    areas = planned_areas(workload(*jobs), {1024: 1, 128: 4, 256: 3})
    assert areas.by_class == {128: (200 + 21) / 4, 256: 3.333333, 1024: 10}
    assert list(areas.by_class) == [128, 256, 1024]
    assert areas.left_out == ["large"]


@given(
    needs=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 900), st.sampled_from([0, 5, 128, 129, 256, 1024]))),
    n_nodes=st.fixed_dictionaries({128: st.integers(1, 9), 256: st.integers(1, 9), 1024: st.integers(1, 9)}),
)
def test_areas_add_up_to_the_requested_work(needs: list[tuple[int, int, int]], n_nodes: dict[float, int]) -> None:
    jobs = [{"res": n, "walltime": s, "input_file": "a", "input_size_gb": need} for n, s, need in needs]
    areas = planned_areas(workload(*jobs), n_nodes)
    total = math.fsum(area * n_nodes[memory] for memory, area in areas.by_class.items())
    assert total == pytest.approx(sum(n * s for n, s, _ in needs), abs=1e-3)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"walltime": -1}, "here: job 1, field walltime: expected seconds above 0, for its area, found -1"),
        ({"walltime": 1e300}, "here: job 1, field walltime: expected seconds above 0, for its area, found 1e+300"),
        ({"node_memory_gb": 0}, "here: job 1, field node_memory_gb: expected more than 0 GB, found 0"),
        ({"input_size_gb": "x"}, "here: job 1, field input_size_gb: expected GB from 0, found x"),
    ],
)
def test_jobs_without_an_area_are_errors(job: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        planned_areas(workload(job), {128: 1})
    assert str(caught.value) == message
    without = workload({})
    del without.jobs[0]["walltime"]
    with pytest.raises(InputError, match=r"field walltime: expected seconds above 0, for its area, found nothing$"):
        planned_areas(without, {128: 1})


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "w.json"
    batsim4.write(workload({"res": 5}, {"node_memory_gb": 0.75}, {"node_memory_gb": 2}, {"node_memory_gb": 3}), file)
    hosts = [*cores("0", "0.5"), *cores("b", "0.5"), *cores("1", "1.0", 4)]
    assert areas_command.main(str(file), str(platform(tmp_path, *hosts))) == 0
    out, err = capsys.readouterr()
    assert out == '{"0.5": 25, "1": 10}\n'
    assert err == f"{file}: 2 jobs left out, which need more than the 1 GB of the largest node\n"


def test_properties_of_zones_count(tmp_path: Path) -> None:
    zone = '<prop id="memory_gb" value="64"/><prop id="node" value="a"/>'
    hosts = f'{zone}<host id="a" speed="1Gf"/><host id="b" speed="1Gf"><prop id="node" value="b"/></host>'
    (tmp_path / "p.xml").write_text(PLATFORM.format(hosts=hosts))
    assert nodes_by_memory(names.find(str(tmp_path / "p.xml")).read()) == {64: 2}


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([*cores("1", "128"), {"memory_gb": "128"}], "host 'h2' (line 7), property node: expected the node it belongs"),
        ([{"node": "1"}], "host 'h0' (line 5), property memory_gb: expected more than 0, found none"),
        (cores("1", "much"), "host 'h0' (line 5), property memory_gb: expected more than 0, found 'much'"),
        (cores("1", "inf"), "host 'h0' (line 5), property memory_gb: expected more than 0, found 'inf'"),
        (cores("1", "0"), "host 'h0' (line 5), property memory_gb: expected more than 0, found '0'"),
        (
            [*cores("7", "128"), *cores("7", "256")],
            "host 'h2' (line 7), property memory_gb: expected 128, like other hosts of node 7, found 256",
        ),
    ],
)
def test_platforms_without_nodes_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: list[dict[str, str]], message: str
) -> None:
    file = tmp_path / "w.json"
    batsim4.write(workload({}), file)
    where = platform(tmp_path, *hosts)
    assert areas_command.main(str(file), str(where)) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"{where}: {message}")) == ("", True)


@pytest.mark.parametrize(
    ("machine", "n_nodes"), [("rackham", {"128": 450, "256": 32, "1024": 4}), ("rackham-128gb", {"128": 486})]
)
def test_machines_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: str, n_nodes: dict[str, int]
) -> None:
    jobs = [{"node_memory_gb": int(memory), "res": n, "walltime": 20} for memory, n in n_nodes.items()]
    batsim4.write(workload(*jobs), tmp_path / "w.json")
    assert areas_command.main(str(tmp_path / "w.json"), machine) == 0
    assert json.loads(capsys.readouterr().out) == dict.fromkeys(n_nodes, 20)


def test_a_real_day() -> None:
    """All files of the day fit 128 GB: its area is all that was asked for."""
    day = rackham.read(real("rackham/rackham-2022-09-10_V10000_anonymous.txt.gz"))
    areas = planned_areas(day, {128: 450, 256: 32, 1024: 4})
    total = sum(job["res"] * job["walltime"] for job in day.jobs)
    assert areas == ({128: round(total / 450, 6), 256: 0, 1024: 0}, [])
