"""Shares of a workload by user, account, partition, GPUs and other fields of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log, sacct, sacct_line

from pybatsched.workload.statistics import shares, stats
from pybatsched.workload.statistics.shares import Share


def test_labels_of_fields_in_which_jobs_differ() -> None:
    jobs: list[dict[str, Any]] = [
        {"user": 7, "partition": "gpu", "queue": "gpu", "qos": "normal", "gpus": 5, "memory_gb": 0.5, "status": 1},
        {"user": "ann", "partition": "cpu", "queue": "cpu", "qos": "normal", "memory_gb": 4, "status": 5},
        {"user": None, "partition": ["a"], "queue": ["a"], "qos": "normal", "gpus": 1, "memory_gb": 7.9, "status": 3},
    ]
    assert shares.labels_of(shares.columns_of(jobs)) == {  # queues are partitions, and there is one QOS
        "user": ["7", "ann", "unknown"],
        "partition": ["gpu", "cpu", "['a']"],
        "gpus": ["4-7", "none", "1"],
        "memory_gb": ["below 1 GB", "4-8 GB", "4-8 GB"],
        "status": ["completed", "cancelled", "3"],
    }
    assert shares.labels_of(shares.columns_of([])) == {}


def test_the_state_of_slurm_replaces_the_status() -> None:
    columns: dict[str, list[Any]] = {"exit_state": ["COMPLETED", "TIMEOUT"], "status": [1, 0]}
    assert list(shares.labels_of(columns)) == ["exit_state"]


def test_names_are_short() -> None:
    (labels,) = shares.labels_of({"user": ["x" * 50, "  ", "y"]}).values()
    assert labels == ["x" * 37 + "...", "unknown", "y"]


def test_shares_of_two_users() -> None:
    """ann has 30 of 40 processor-seconds, and bob has 10."""
    labels, work = ["ann", "bob", "ann"], [10.0, 10.0, 20.0]
    names = shares.names_of("user", labels, work)
    assert names == ["ann", "bob"]
    assert shares.shares(labels, work, [0.0, 5.0, 4.0], names) == [Share("ann", 2, 0.75, 2), Share("bob", 1, 0.25, 5)]
    assert shares.shares(labels, work, None, ["bob"]) == [Share("bob", 1, 0.25, None), Share("1 other", 2, 0.75, None)]
    assert shares.shares(labels, [0.0] * 3, [None, None, 2.0], names) == [
        Share("ann", 2, None, 2),
        Share("bob", 1, None, None),
    ]


@pytest.mark.parametrize(
    ("n_users", "n_rows", "last"), [(11, 11, "u00"), (12, 11, "2 others"), (500, 11, "490 others")]
)
def test_long_lists_are_short(n_users: int, n_rows: int, last: str) -> None:
    labels = [f"u{k:02}" for k in range(n_users)]
    work = [float(k + 1) for k in range(n_users)]
    found = shares.shares(labels, work, None, shares.names_of("user", labels, work))
    assert (len(found), found[0].name, found[-1].name) == (n_rows, labels[-1], last)
    assert sum(one.n_jobs for one in found) == n_users
    assert sum(one.share or 0 for one in found) == pytest.approx(1)


def test_classes_of_numbers_are_in_their_order() -> None:
    labels = ["16-31", "none", "2-3", "1"]
    assert shares.names_of("gpus", labels, [1.0, 2.0, 3.0, 4.0]) == ["none", "1", "2-3", "16-31"]
    memory = ["4-8 GB", "unknown", "below 1 GB", "1-2 GB"]
    assert shares.names_of("memory_gb", memory, [1.0] * 4) == ["below 1 GB", "1-2 GB", "4-8 GB", "unknown"]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_shares_are_those_of_a_plain_loop(jobs: list[tuple[str, int, int]]) -> None:
    labels, work, waits = [one[0] for one in jobs], [float(one[1]) for one in jobs], [float(one[2]) for one in jobs]
    names = shares.names_of("user", labels, work)
    for one in shares.shares(labels, work, waits, names):
        own = [job for job in jobs if (job[0] == one.name if one.name in names else job[0] not in names)]
        assert one.n_jobs == len(own)
        total = sum(work)
        assert one.share == (pytest.approx(sum(job[1] for job in own) / total) if total else None)
        assert one.mean_wait_s == pytest.approx(sum(job[2] for job in own) / len(own))


def test_stats_of_a_log_of_slurm(tmp_path: Path) -> None:
    """ann: 2 x 60 and 8 x 60 processor-seconds of 750; bob: 1 x 150."""
    file = sacct(
        tmp_path,
        sacct_line("1", 0, 0, 60, 2),
        sacct_line("2", 10, 30, 60, 8, Partition="gpu", AllocTRES="cpu=8,mem=4G,node=1,gres/gpu=2"),
        sacct_line("3", 20, 6, 150, 1, User="bob", State="FAILED"),
    )
    sample = stats.sample(file)
    figures = stats.summary(sample)
    assert list(figures["shares"]) == ["user", "partition", "gpus", "memory_gb", "exit_state"]  # one account, one QOS
    assert figures["shares"]["user"] == [
        {"name": "ann", "jobs": 2, "processor_seconds_share": pytest.approx(0.8), "mean_wait_s": 15},
        {"name": "bob", "jobs": 1, "processor_seconds_share": pytest.approx(0.2), "mean_wait_s": 6},
    ]
    assert [(one["name"], one["jobs"]) for one in figures["shares"]["gpus"]] == [("none", 2), ("2-3", 1)]
    text = stats.lines(sample, figures)
    at = text.index("by user (jobs, % of the processor-seconds, mean logged wait)")
    assert text[at + 1 : at + 4] == ["  ann         2   80.0%       15 s", "  bob         1   20.0%        6 s", ""]
    assert "by partition (jobs, % of the processor-seconds, mean logged wait)" in text


def test_stats_of_a_log_in_swf(tmp_path: Path) -> None:
    """Unknown users (-1) are one row. Jobs that cannot run are in no row."""
    lines = [line(1, 0, 0, 100, 4, user=1), line(2, 5, 0, 100, 4, user=-1), line(3, 9, 0, 0, 4, user=3)]
    sample = stats.sample(log(tmp_path, *lines))
    assert sample.labels["user"] == ["1", "unknown"]
    assert stats.summary(sample)["users"] == 1


def test_stats_have_gpus_of_fields_after_the_18th(tmp_path: Path) -> None:
    header = "; MaxProcs: 8\n; 18: used_GPUs\n"
    sample = stats.sample(log(tmp_path, f"{line(1)} 4", f"{line(2, 5)} 0", f"{line(3, 6)} -1", header=header))
    assert sample.labels["gpus"] == ["4-7", "none", "none"]


def test_jobs_that_do_not_differ_have_no_shares(tmp_path: Path) -> None:
    sample = stats.sample(log(tmp_path, line(1), line(2, 5)))
    assert "shares" not in stats.summary(sample)
    assert not any(text.startswith("by ") for text in stats.lines(sample, stats.summary(sample)))
