"""Single values of Slurm's accounting: times, limits, memory, resources, states and ids."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from pybatsched.workload.formats import slurm_values as values
from pybatsched.workload.formats.slurm_values import JobId, LoggedTime, Memory

PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),  # a number alone is minutes
        ("0.5", 30),
        ("30:00", 1800),
        ("90:15", 5415),
        ("01:00:00", 3600),
        ("100:00:00", 360_000),
        ("1-00", 86_400),
        ("1-12:30", 131_400),
        ("2-03:04:05", 183_845),
        ("00:10:00.500", 600.5),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INFINITE", None),
        ("INVALID", None),
        ("Unknown", None),
        ("", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert values.limit_of(text) == seconds


@pytest.mark.parametrize("text", ["-5", "x", "1:2:3:4", "1-", "-1:00", "1d", "99999999999", "1-2-3", "٣"])
def test_wrong_time_limits(text: str) -> None:
    with pytest.raises(ValueError, match="a time limit such as"):
        values.limit_of(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("1-00:00:01", 86_401), ("00:00:59", 59), ("10:30", 630), ("None", None)]
)
def test_durations(text: str, seconds: float | None) -> None:
    assert values.duration_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "zone", "time"),
    [
        ("1704067200", UTC, LoggedTime(1704067200)),
        ("1704067200.5", UTC, LoggedTime(1704067200.5)),
        ("2024-01-01T00:00:00", UTC, LoggedTime(1704067200, is_local=True)),
        ("2024-01-01 00:00:00", UTC, LoggedTime(1704067200, is_local=True)),
        ("2024-01-01T00:00:00Z", PARIS, LoggedTime(1704067200)),
        ("2024-01-01T01:00:00+01:00", UTC, LoggedTime(1704067200)),
        ("2024-01-01T01:00:00", PARIS, LoggedTime(1704067200, is_local=True)),
        ("2024-07-01T02:00:00", PARIS, LoggedTime(1719792000, is_local=True)),  # in summer
        ("2024-10-27T02:30:00", PARIS, LoggedTime(1729989000, is_local=True, is_ambiguous=True)),
        (
            "2024-03-31T02:30:00",
            PARIS,
            LoggedTime(1711848600, is_local=True, is_missing=True),
        ),  # does not exist: the clock was put forward
        ("Unknown", UTC, None),
        ("None", UTC, None),
        ("", UTC, None),
        ("0", UTC, None),
    ],
)
def test_times(text: str, zone: ZoneInfo, time: LoggedTime | None) -> None:
    assert values.time_of(text, zone) == time


@pytest.mark.parametrize(
    "text", ["-5", "-1704067200", "1704067200000", "yesterday", "2024-13-01T00:00:00", "12:00", "1900-01-01"]
)
def test_wrong_times(text: str) -> None:
    with pytest.raises(ValueError, match="seconds since 1970, or a time such as"):
        values.time_of(text, UTC)


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("4000", Memory(4000 / 1024)),
        ("4096M", Memory(4)),
        ("16G", Memory(16)),
        ("1T", Memory(1024)),
        ("1048576K", Memory(1)),
        ("4Gn", Memory(4, "n")),
        ("2048Mc", Memory(2, "c")),
        ("0n", Memory(0, "n")),
        ("1.50G", Memory(1.5)),
        ("", None),
    ],
)
def test_memory(text: str, memory: Memory | None) -> None:
    assert values.memory_of(text) == memory


def test_used_memory_without_a_unit_is_in_kilobytes() -> None:
    assert values.memory_of("1048576", "K") == Memory(1)


@pytest.mark.parametrize("text", ["-4G", "4X", "G", "4Gx"])
def test_wrong_memory(text: str) -> None:
    with pytest.raises(ValueError, match="an amount of memory"):
        values.memory_of(text)


def test_resources_and_gpus() -> None:
    found = values.resources_of("billing=8,cpu=4,mem=16G,node=1,gres/gpu=2,gres/gpu:a100=2")
    assert (found["cpu"], found["mem"], found["node"]) == ("4", "16G", "1")
    assert values.gpus_of(found) == 2
    assert values.gpus_of(values.resources_of("gres/gpu:a100=2,gres/gpu:v100=1")) == 3
    assert values.gpus_of(values.resources_of("cpu=4")) is None
    assert values.resources_of("") == {}
    with pytest.raises(ValueError, match="resources such as cpu=4"):
        values.resources_of("cpu:4")


@pytest.mark.parametrize(("text", "count"), [("4", 4), ("2K", 2048), ("0", 0), ("", None), ("Unknown", None)])
def test_counts(text: str, count: int | None) -> None:
    assert values.count_of(text) == count


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "99999999999"])
def test_wrong_counts(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number"):
        values.count_of(text)


def test_energy() -> None:
    assert [values.energy_of(text) for text in ("1500", "1.50K", "2M", "", "18446744073709551614")] == [
        1500,
        1500,
        2e6,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("timeout", "TIMEOUT"),
        ("PR", "PREEMPTED"),
        ("CD", "COMPLETED"),
        ("OOM", "OUT_OF_MEMORY"),
        ("DEADLINE", "DEADLINE"),
        ("BOOT_FAIL", "BOOT_FAIL"),
        ("REQUEUED", "REQUEUED"),
        ("PENDING", "PENDING"),
        ("", None),
    ],
)
def test_states(text: str, state: str | None) -> None:
    assert values.state_of(text) == state


@pytest.mark.parametrize("text", ["DONE", "RE", "X Y"])
def test_wrong_states(text: str) -> None:
    with pytest.raises(ValueError, match="a state of Slurm"):
        values.state_of(text)


@pytest.mark.parametrize(
    ("text", "job_id", "padded"),
    [
        ("123", JobId(123, None, None, None, is_waiting=False), "0123"),
        ("123_4", JobId(123, 4, None, None, is_waiting=False), "0123_04"),
        ("123+1", JobId(123, None, 1, None, is_waiting=False), "0123+1"),
        ("123.batch", JobId(123, None, None, "batch", is_waiting=False), "0123"),
        ("123_4.0", JobId(123, 4, None, "0", is_waiting=False), "0123_04"),
        ("123+1.extern", JobId(123, None, 1, "extern", is_waiting=False), "0123+1"),
        ("123_[5-9%2]", JobId(123, None, None, None, is_waiting=True), "0123"),
    ],
)
def test_ids(text: str, job_id: JobId, padded: str) -> None:
    assert values.job_id_of(text) == job_id
    assert job_id.text(4, 2, 1) == padded


@pytest.mark.parametrize("text", ["", "x", "-1", "12 3", "12_", "12.", "1" * 20])
def test_wrong_ids(text: str) -> None:
    with pytest.raises(ValueError, match="a job id such as"):
        values.job_id_of(text)
