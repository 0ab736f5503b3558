"""What jobs of logs request of nodes: memory, GPUs and their type, features, whole nodes, cores on each node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import tables
from support.logs import sacct
from support.process import run_cli

from pybatsched.core.node_requests import GB, request_of
from pybatsched.workload import load
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.logs import conversion, slurm_values
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.slurm import read_slurm

HEADER = "JobID|Submit|Start|End|ElapsedRaw|NCPUS|NNodes|ReqMem|ReqTRES|AllocTRES|State|SubmitLine|Constraints"
FIELDS = ("res", "nodes", "memory_gb", "node_memory_gb", "gpus", "gpu_type", "features", "exclusive", "cores_per_node")


def of_slurm(
    tmp_path: Path, *lines: str, header: str = HEADER, **options: Any
) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Return the fields of jobs, and the counts of the report, of lines with the cells from NCPUS on."""
    times = "1704067200|1704067210|1704067310|100"
    rows = [f"{number}|{times}|{line}" for number, line in enumerate(lines, 1)]
    workload, report = to_workload(read_slurm(sacct(tmp_path, *rows, header=header)), LogOptions(**options))
    counts = {rule: one.count for rule, one in report.rule_counts.items()}
    for job in workload.jobs:
        request_of(job)
    return [tuple(job.get(name) for name in FIELDS) for job in workload.jobs], counts


def test_requests_from_slurm(tmp_path: Path) -> None:
    found, counts = of_slurm(
        tmp_path,
        "8|2|16Gn|cpu=8,mem=32G,node=2|cpu=8|COMPLETED|sbatch a.sh|",
        "8|2|2Gc|cpu=8,gres/gpu:a100=4,gres/gpu=4|cpu=8,gres/gpu=4|COMPLETED|sbatch -C x a.sh|a100&ib",
        "8|1|12G|cpu=8,gres/gpu=2|cpu=8,gres/gpu:v100=2,gres/gpu=2|COMPLETED|sbatch --exclusive a.sh|",
        "8|2|32G|cpu=8|cpu=8,gres/gpu:v100=2|COMPLETED|sbatch --mem=16G --exclusive=user a.sh|[r1*1&r2*1]",
        "12|2|24G||cpu=12,gres/gpu:a100=1,gres/gpu:v100=1|COMPLETED|sbatch --ntasks-per-node=3 -c 2 a.sh|bad(",
        "12|2|24G||cpu=12|COMPLETED|sbatch --ntasks-per-node=4 --mem 12G a.sh|[a]",
    )
    assert found == [
        (8, 2, None, 16, None, None, None, None, None),  # perhaps not equally many cores on both nodes
        (8, 2, 2, None, 4, "a100", "a100&ib", None, None),
        (8, 1, 1.5, None, 2, None, None, True, None),  # GPUs of any type were requested
        (8, 2, None, 16, 2, "v100", "r1|r2", None, None),
        (12, 2, 2, None, 2, None, None, None, 6),
        (12, 2, None, 12, None, None, "a", None, None),
    ]
    rules = conversion.SIMPLER_FEATURES, conversion.NO_FEATURES, conversion.SEVERAL_TYPES, conversion.UNEVEN
    assert [counts[rule] for rule in rules] == [2, 1, 1, 1]
    note = (
        "requests of nodes that jobs have: a number of nodes (6 jobs), memory (6 jobs), GPUs (4 jobs), "
        "a type of GPUs (2 jobs), features (3 jobs), whole nodes (exclusive) (1 job), cores on each node (1 job)"
    )
    assert note in counts


def test_processors_that_are_nodes_have_no_cores_on_each_node(tmp_path: Path) -> None:
    line = "8|2|16Gn|||COMPLETED|sbatch --ntasks-per-node=4 a.sh|"
    assert of_slurm(tmp_path, line, size_in="nodes")[0] == [(2, 2, 16, None, None, None, None, None, None)]


def test_whole_nodes_by_a_column(tmp_path: Path) -> None:
    header = HEADER.replace("SubmitLine", "OverSubscribe")
    found, _ = of_slurm(tmp_path, *(f"8|1||||COMPLETED|{one}|" for one in ("NO", "OK", "USER")), header=header)
    assert [one[7] for one in found] == [True, None, None]


def test_types_of_generic_resources(tmp_path: Path) -> None:
    header = HEADER.replace("ReqTRES|AllocTRES", "ReqGRES|AllocGRES")
    found, _ = of_slurm(tmp_path, "8|2||gpu:v100:2||COMPLETED||", "8|1|||gpu:1|COMPLETED||", header=header)
    assert [one[4:6] for one in found] == [(4, "v100"), (1, None)]


@pytest.mark.parametrize(
    ("constraint", "features", "is_simplified"),
    [
        ("a", "a", False),
        ("a&b", "a&b", False),
        ("a,b", "a&b", False),
        ("a|b", "a|b", False),
        ("[a|b]", "a|b", True),
        ("a*2", "a", True),
        ("[a*2&b*4]", "a|b", True),
        ("(a|b)&(c|d)", "a&c|a&d|b&c|b&d", False),
        ("a|b&c", "a&c|b&c", False),  # from left to right
        ("a&(b|a)", "a&b|a", False),
        (" gpu_mem:16 & k=v ", "gpu_mem:16&k=v", False),
    ],
)
def test_constraints(constraint: str, features: str, is_simplified: bool) -> None:
    assert slurm_values.features_of(constraint) == (features, is_simplified)


@pytest.mark.parametrize(
    "constraint", ["a&", "|a", "(a", "a)", "[a)", "a b", "a!b", "()", "&", "(a|b)" + "&(a|b)" * 9 + "&(c|d|e)" * 9]
)
def test_constraints_that_cannot_be_read(constraint: str) -> None:
    with pytest.raises(ValueError, match="features"):
        slurm_values.features_of(constraint)


def test_whole_memory_of_a_node_fits() -> None:
    """A part of the memory of a node is rounded down: 36 parts of 64 GB are not more than 64 GB."""
    found = request_of({"memory_gb": round(64 / 36, 9)})
    assert found is not None
    assert 36 * found[0].core_memory <= 64 * GB


MAPPING = """\
[columns]
submit = "at"
start = "from"
end = "to"
cores = "n"
nodes = "hosts"
memory = { column = "mem", unit = "GB", per = "node" }
gpus = { column = "cards", per = "node" }
gpu_type = "card"
features = "need"
exclusive = { column = "shares", true = ["never"] }
cores_per_node = "ppn"
"""


def test_requests_from_a_mapping(tmp_path: Path) -> None:
    mapping, file = tmp_path / "mapping.toml", tmp_path / "jobs.csv"
    mapping.write_text(MAPPING)
    file.write_text(
        "at,from,to,n,hosts,mem,cards,card,need,shares,ppn\n"
        "1,2,9,8,2,64,2,Tesla V100,ib&nvme,never,\n"
        "1,2,9,8,2,64,0,Tesla V100,,always,4\n"
    )
    found = [tuple(job.get(name) for name in FIELDS) for job in load(file, mapping=str(mapping)).jobs]
    assert found == [
        (8, 2, None, 64, 4, "Tesla_V100", "ib&nvme", True, None),
        (8, 2, 16, None, 0, None, None, None, 4),
    ]
    mapping.write_text(MAPPING.replace('gpu_type = "card"', 'gpu_type = { column = "card", true = ["x"] }'))
    done = run_cli("workload", "convert", str(file), str(tmp_path / "w.json"), "--mapping", str(mapping))
    assert "columns.gpu_type.true: expected none, because gpu_type is not true or false" in done.stderr


@pytest.mark.parametrize(
    ("name", "size_in", "expected"),
    [
        ("pm100", None, (2, 2, 240, None, 8, None, None, True, None)),
        ("eagle", None, (72, 2, 0.055555556, None, 1, None, None, None, None)),
        ("supercloud", None, (40, 1, 0.2, None, 2, None, "xeon|volta", None, None)),
        ("helios", "cores", (64, 1, None, None, 8, None, None, None, None)),
    ],
)
def test_requests_from_public_sets(tmp_path: Path, name: str, size_in: Any, expected: tuple[Any, ...]) -> None:
    job = load(tables.one_of(name, tmp_path), size_in=size_in).jobs[0]
    assert tuple(job.get(field) for field in FIELDS) == expected


def test_a_log_with_requests_runs_on_nodes(tmp_path: Path) -> None:
    file = tables.one_of("supercloud", tmp_path)
    nodes = "4 x 40 cores 384 GB 2 gpus:volta features volta"
    done = run_cli("simulate", "-w", str(file), "--nodes", nodes, "--policy", "easy", "-e", str(tmp_path / "out"))
    assert (done.returncode, "jobs completed" in done.stdout, "rejected" in done.stdout) == (0, True, False), (
        done.stderr
    )
    assert "memory (2 jobs), GPUs (2 jobs), features (1 job)" in done.stderr
