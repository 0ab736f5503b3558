"""Decisions of the main scheduler and of backfill: worked examples of each rule, on paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.slurm_scenes import Scene, accounts_of

from pybatsched.machines.slurm_conf import NodeSpec, Partition, Priorities
from pybatsched_schedulers.slurm.accounts import Qos
from pybatsched_schedulers.slurm.backfill import _Map
from pybatsched_schedulers.slurm.jobs import Record, Request
from pybatsched_schedulers.slurm.queue import in_order

BATCH = Partition("batch", (0, 1, 2, 3), tier=1, job_factor=1)
EXPRESS = Partition("express", (2, 3), tier=5, job_factor=5)
BY_QOS: dict[str, Any] = {"preempt_type": "qos", "preempt_mode": frozenset({"requeue"})}
HIGH, NORMAL, LOW = Qos("high", 3, frozenset({"low"})), Qos("normal", 2), Qos("low", 1)


def two_partitions(**conf: Any) -> Scene:
    return Scene(partitions=[BATCH, EXPRESS], **conf)


# --- order ---


def order_of(*records: Record) -> list[int]:
    return [entry.record.id for entry in in_order(records, preempts_by_qos=True)]


def waiting(number: int, priority: float = 100, **fields: Any) -> Record:
    return Record(
        number, Request(), fields.pop("partition", BATCH), 600, fields.pop("submit_at", 0), priority=priority, **fields
    )


def test_tier_comes_before_whole_priority_then_submission_then_id() -> None:
    assert order_of(waiting(1, 50), waiting(2, 100), waiting(3, 1, partition=EXPRESS)) == [3, 2, 1]
    assert order_of(waiting(2, 100.2, submit_at=5), waiting(1, 100.9, submit_at=6), waiting(3, 101)) == [3, 2, 1]
    assert order_of(waiting(2), waiting(1), waiting(3, submit_at=-1)) == [3, 1, 2]
    assert order_of(waiting(1, 1_000), waiting(2, 1, reservation="r")) == [2, 1]
    assert order_of(waiting(9, array_id=1, tasks=[3]), waiting(8, array_id=1, task=2), waiting(5)) == [8, 9, 5]


def test_preemptors_come_first_and_a_circle_of_three_is_sorted_as_glibc_does() -> None:
    assert order_of(waiting(1, 900, qos=LOW), waiting(2, 1, qos=HIGH)) == [2, 1]
    # high in batch < low in express (preemptor), low < normal in batch (tier), normal < high (priority).
    high, low = waiting(1, 10, qos=HIGH), waiting(2, 10, qos=LOW, partition=EXPRESS)
    normal = waiting(3, 500, qos=NORMAL)
    # A merge sort of three sorts the last two, then merges the first one into them.
    assert order_of(high, low, normal) == [1, 2, 3]
    assert order_of(low, normal, high) == [2, 3, 1]
    assert order_of(normal, high, low) == [3, 1, 2]


@given(st.lists(st.sampled_from(["one", "two", "array", "main", "end", "preempt", "drop", "update", "later"])))
def test_the_queue_is_as_if_it_was_sorted_anew(steps: list[str]) -> None:
    scene = two_partitions(priorities=Priorities(type="multifactor", age=1000, partition=50, fairshare=100))
    controller, now = scene.controller, 0
    jobs = controller.jobs
    for number, step in enumerate(steps):
        if step in {"one", "two", "array"}:
            tasks = [0, 1, 2] if step == "array" else []
            partition = "express,batch" if step == "two" else "batch"
            scene.submit(f"j{number}", 1 + number % 3, at=now, user="eve", partition=partition, tasks=tasks)
        elif step == "main":
            scene.main(now)
        elif step == "update":
            controller.update_priorities(now)
        elif step == "later":
            now += 50
        elif step == "drop" and jobs.waiting:
            controller.drop(next(iter(jobs.waiting.values())))
        elif step in {"end", "preempt"} and jobs.running:
            record = next(iter(jobs.running))
            (controller.end if step == "end" else controller.preempt)(record, now)
            controller.nodes_answered(record)
        found = controller.queue(now)
        ready = [one for one in jobs.waiting.values() if controller.is_ready(one, now)]
        assert found == in_order(ready, preempts_by_qos=False, partition_weight=controller.priorities.partition_weight)
        times = [one.eligible_at for one in jobs.waiting.values() if one.eligible_at > now]
        assert controller.next_eligible(now) == min(times, default=math.inf)


# --- main ---


def test_the_first_job_that_does_not_fit_blocks_its_partition_and_withdraws_its_nodes() -> None:
    scene = two_partitions()
    scene.submit("x", 1, partition="express")
    scene.submit("big", 2, partition="express")
    scene.submit("small", 1, partition="express")
    scene.submit("b", 2)
    scene.submit("c", 1)
    assert scene.main(0) == ["x on 2", "b on 0,1"]
    assert scene.reasons() == {"big": "Resources", "small": "Priority", "c": "Resources"}


def test_a_job_that_the_nodes_left_to_it_could_never_hold_blocks_nobody() -> None:
    scene = two_partitions()
    scene.submit("x", 1, partition="express")
    scene.submit("big", 2, partition="express")  # withdraws 2 and 3
    scene.reserve("r", 300, 900, [0])
    scene.submit("b", 2)  # only node 1 is left
    scene.submit("c", 1)
    assert scene.main(0) == ["x on 2", "c on 1"]
    assert scene.reasons()["b"] == "ReqNodeNotAvail"


def test_depths_and_the_most_starts_of_a_pass() -> None:
    scene = two_partitions()
    for i in range(3):
        scene.submit(f"b{i}", 1)
    scene.submit("x", 1, partition="express")
    assert scene.main(0, depth=2) == ["x on 2", "b0 on 3"]
    scene = two_partitions(scheduling={"partition_job_depth": 1})
    for i in range(3):
        scene.submit(f"b{i}", 1)
    scene.submit("x", 1, partition="express")
    assert scene.main(0) == ["x on 2", "b0 on 3"]
    scene = Scene(scheduling={"sched_max_job_start": 2})
    for i in range(3):
        scene.submit(f"b{i}", 1)
    assert scene.main(0) == ["b0 on 0", "b1 on 1"]
    assert scene.main(0) == ["b2 on 2"]


def test_nodes_that_have_not_answered_are_closed_and_backfill_waits_a_second() -> None:
    scene = Scene(1, 4, select="cons_tres")
    scene.submit("a", 1, n_tasks=1)
    scene.submit("b", 1, n_tasks=1)
    assert scene.main(0) == ["a on 0", "b on 0"]
    scene.end("a", 100, answered=False)
    scene.submit("c", 1, n_tasks=4, at=100)
    scene.submit("d", 1, n_tasks=1, minutes=5, at=100)
    assert scene.main(100) == []
    assert scene.backfill(100) == ["c at 600 on 0", "d at 101 on 0"]
    scene.answer("a")
    assert scene.backfill(100) == ["c at 600 on 0", "d on 0"]


def test_nodes_that_are_not_up_are_never_used() -> None:
    nodes = [NodeSpec(f"n{i}", 1, is_up=i != 1) for i in range(3)]
    scene = Scene(nodes=nodes)
    scene.submit("a", 2)
    assert scene.controller.refused_by(scene.submit("b", 3)) == "BadConstraints"
    scene.controller.drop(scene.records["b"])
    assert scene.main(0) == ["a on 0,2"]


# --- several partitions ---


def test_a_job_of_several_partitions_starts_in_the_first_with_room() -> None:
    scene = two_partitions()
    scene.submit("a", 1, partition="express,batch")
    scene.submit("b", 2, partition="express,batch")
    scene.submit("c", 1, partition="express")
    assert scene.main(0) == ["a on 2", "b on 0,1"]
    assert scene.records["a"].partition is EXPRESS
    assert scene.records["b"].partition is BATCH
    assert scene.reasons() == {"c": "Priority"}


@pytest.mark.parametrize("is_single", [False, True])
def test_backfill_plans_a_job_in_each_of_its_partitions_unless_told_otherwise(is_single: bool) -> None:
    scene = two_partitions(scheduling={"bf_one_resv_per_job": is_single})
    scene.submit("a", 2, minutes=20)
    scene.submit("x", 2, partition="express", minutes=10)
    assert scene.main(0) == ["x on 2,3", "a on 0,1"]
    scene.submit("b", 2, partition="express,batch")
    scene.submit("c", 4, minutes=10)
    once = ["b at 600 on 2,3"]
    assert scene.backfill(0)[: 2 - is_single] == (once if is_single else [*once, "b at 1200 on 0,1"])
    scene.end("a", 60)
    assert scene.main(60) == ["b on 0,1"]


def test_priorities_in_several_partitions_differ_by_the_factor_of_the_partition() -> None:
    other = Partition("other", (0, 1, 2, 3), tier=1, job_factor=9)
    both = tuple((one, Request()) for one in (BATCH, other))
    found = in_order([waiting(1, 10, choices=both), waiting(2, 12)], preempts_by_qos=False, partition_weight=1)
    assert [(one.record.id, one.partition.name) for one in found] == [(1, "other"), (2, "batch"), (1, "batch")]


# --- arrays, dependencies, reservations ---


def test_tasks_start_in_order_up_to_the_limit_of_the_array_which_blocks_nobody() -> None:
    scene = Scene()
    scene.submit("a", 1, tasks=[2, 4, 6], array_limit=2)
    scene.submit("b", 1)
    assert scene.main(0) == ["a_2 on 0", "a_4 on 1", "b on 2"]
    assert scene.reasons() == {"a": "JobArrayTaskLimit"}
    scene.end("a_4", 50)
    assert scene.backfill(50) == ["a_6 on 1"]


def test_the_age_of_an_array_counts_since_it_could_start() -> None:
    scene = Scene(1)
    first = scene.submit("a", 1, tasks=[0, 1, 2], array_limit=1)
    assert scene.main(7) == ["a_0 on 0"]  # the queue was built for the first time: it can start since 7, then it counts
    rest = scene.controller.jobs.arrays[first.array_id]
    assert (rest.could_start_at, rest.was_seen, rest.eligible_at) == (0, True, 7)
    scene = Scene(1)
    first = scene.submit("a", 1, tasks=[0, 1, 2], array_limit=1)
    assert scene.backfill(7) == ["a_0 on 0"]  # backfill only tests: at its limit it cannot start
    rest = scene.controller.jobs.arrays[first.array_id]
    assert (rest.could_start_at, rest.was_seen) == (0, False)
    scene.main(10)
    assert (rest.could_start_at, rest.was_seen) == (0, False)
    scene.end("a_0", 20)
    scene.submit("b", 1, at=25)  # Slurm tests whether other jobs come before it
    assert (rest.could_start_at, rest.was_seen) == (25, False)
    scene.submit("c", 1, at=26, dependencies=(("after", 99),))
    assert scene.main(30) == ["a_1 on 0"]
    assert (rest.was_seen, rest.eligible_at) == (True, 25)


def test_dependencies_are_tested_when_a_queue_is_built_and_the_age_counts_from_then() -> None:
    scene = Scene()
    scene.submit("a", 1, tasks=[0, 1])
    scene.submit("any", 1, dependencies=(("afterany", 1),))
    scene.submit("begun", 1, dependencies=(("after", 1),))
    assert scene.main(0) == ["a_0 on 0", "a_1 on 1"]
    assert scene.reasons() == {"any": "Dependency", "begun": "Dependency"}
    assert scene.main(3) == ["begun on 2"]
    assert scene.records["begun"].eligible_at == 3
    scene.end("a_0", 10)
    assert scene.main(10) == []
    scene.end("a_1", 20)
    assert scene.main(22) == ["any on 3"]  # the smallest run of idle nodes
    assert scene.records["any"].eligible_at == 22
    assert scene.submit("late", 1, at=30, dependencies=(("afterok", 1),)).eligible_at == 30  # met at submission


def test_a_begin_time_holds_a_job_and_blocks_nobody() -> None:
    scene = Scene(1)
    scene.submit("a", 1, eligible_at=100)
    scene.submit("b", 1, minutes=1)
    assert scene.main(0) == ["b on 0"]
    assert scene.reasons() == {"a": "BeginTime"}
    scene.end("b", 60)
    assert scene.main(99) == []
    assert scene.main(100) == ["a on 0"]


def test_reservations_keep_other_jobs_away_and_their_own_wait_for_them() -> None:
    scene = Scene(2)
    scene.reserve("r", 600, 1200, [0])
    own = scene.submit("own", 1, minutes=5, reservation="r")
    scene.submit("long", 1, minutes=11)
    scene.submit("short", 1, minutes=10)
    scene.submit("wide", 2, minutes=11)
    assert scene.main(0) == ["long on 1", "short on 0"]
    assert scene.reasons() == {"own": "Reservation", "wide": "ReqNodeNotAvail"}
    scene.end("short", 60)
    scene.end("long", 60)
    assert scene.backfill(60) == ["wide at 1201 on 0,1"]  # just after the reservation
    assert scene.main(600) == ["own on 0"]
    assert own.eligible_at == 600
    scene.submit("next", 1, minutes=5, reservation="r")
    scene.submit("other", 1, minutes=5)
    assert scene.main(601) == ["other on 1"]  # a job that waits in a reservation blocks only this


# --- preemption ---


def preempting(**conf: Any) -> Scene:
    scene = Scene(3, 4, accounts=accounts_of(qos=(HIGH, LOW)), select="cons_tres", **{**BY_QOS, **conf})
    scene.submit("low1", 1, n_tasks=4, qos="low")
    scene.submit("low2", 2, n_tasks=8, qos="low")
    scene.main(0)
    return scene


def test_a_preemptor_waits_until_the_nodes_answer_and_its_victims_for_121_seconds() -> None:
    scene = preempting()
    scene.submit("high", 1, n_tasks=2, qos="high", at=10)
    scene.submit("other", 1, n_tasks=1, at=10)
    assert scene.main(10) == ["low1 preempted for high"]  # the victim with the fewest nodes
    assert scene.reasons() == {"low1": "None", "high": "Resources", "other": "Priority"}
    victim = scene.records["low1"]
    assert (victim.submit_at, victim.eligible_at, victim.was_seen) == (10, 131, False)
    assert scene.main(11) == []
    scene.answer("low1")
    assert scene.main(12) == ["high on 0", "other on 0"]
    scene.end("high", 20)
    scene.end("other", 20)
    assert scene.main(130) == []
    assert scene.main(131) == ["low1 on 0"]


def test_a_preemptor_kills_nobody_else_for_a_minute_nor_do_other_tasks_of_its_array() -> None:
    scene = Scene(2, accounts=accounts_of(qos=(HIGH, LOW)), kill_wait_s=50, **BY_QOS)
    for name in ("low1", "low2"):
        scene.submit(name, 1, qos="low")
    scene.main(0)
    scene.submit("a", 1, qos="high", tasks=[0, 1], at=10)
    assert scene.main(10) == ["low1 preempted for a"]
    scene.answer("low1")
    assert scene.main(20) == ["a_0 on 0"]
    assert scene.main(69) == []
    assert scene.main(70) == ["low2 preempted for a"]


def test_victims_are_those_on_the_chosen_nodes() -> None:
    scene = preempting()
    scene.submit("high", 3, n_tasks=12, qos="high")
    assert scene.main(10) == ["low2 preempted for high", "low1 preempted for high"]  # the last that was needed first


@pytest.mark.parametrize("conf", [{"preempt_mode": frozenset({"cancel"})}, {"requeues": False}])
def test_preempted_jobs_may_be_cancelled(conf: dict[str, Any]) -> None:
    scene = preempting(**conf)
    scene.submit("high", 1, n_tasks=4, qos="high")
    assert scene.main(10) == ["low1 preempted for high"]
    scene.answer("low1")
    assert scene.main(12) == ["high on 0"]
    assert scene.reasons() == {}


@pytest.mark.parametrize(("mode", "expected"), [("", ["b preempted for x"]), ("off", [])])
def test_partitions_of_a_higher_tier_preempt_unless_the_lower_one_forbids_it(mode: str, expected: list[str]) -> None:
    lower = Partition("batch", (0, 1), tier=1, preempt_mode=mode)
    conf: dict[str, Any] = {"preempt_type": "partition_prio", "preempt_mode": frozenset({"requeue"})}
    scene = Scene(2, partitions=[lower, Partition("express", (0, 1), tier=2)], **conf)
    scene.submit("b", 1)
    scene.submit("c", 1, partition="express")
    scene.main(0)
    scene.submit("x", 1, partition="express")
    assert scene.main(10) == expected


def test_a_preempted_task_keeps_its_slot_until_its_nodes_answer() -> None:
    scene = Scene(2, accounts=accounts_of(qos=(HIGH, LOW)), **BY_QOS)
    scene.submit("a", 1, qos="low", tasks=[0, 1, 2], array_limit=2)
    assert scene.main(0) == ["a_0 on 0", "a_1 on 1"]
    scene.submit("high", 1, qos="high")
    assert scene.main(10) == ["a_0 preempted for high"]
    jobs = scene.controller.jobs
    rest = jobs.arrays[1]
    assert jobs.is_over_array_limit(rest)
    scene.answer("a_0")
    assert not jobs.is_over_array_limit(rest)


# --- backfill ---


def test_a_backfilled_job_ends_strictly_before_the_plan_that_it_may_not_delay() -> None:
    scene = Scene(2)
    scene.submit("a", 1, minutes=10)
    scene.submit("wide", 2, minutes=10)
    scene.submit("ten", 1, minutes=10)
    scene.submit("nine", 1, minutes=9)
    assert scene.main(0) == ["a on 0"]
    assert scene.backfill(0) == ["wide at 600 on 0,1", "ten at 1200 on 1", "nine on 1"]


def test_plans_are_rounded_down_so_that_they_may_overlap() -> None:
    scene = Scene(1)
    scene.submit("a", 1, minutes=1)
    scene.main(28)
    scene.submit("b", 1, minutes=1)
    scene.submit("c", 1, minutes=1)
    # b: [88, 148) is [60, 120) in the map. c: tried again at 120, just after it, while b may run until 148.
    assert scene.backfill(28) == ["b at 88 on 0", "c at 120 on 0"]


def test_linear_removes_running_jobs_one_at_a_time_by_their_ends() -> None:
    scene = Scene(4)
    for i, minutes in enumerate((4, 2, 3, 2)):
        scene.submit(f"r{i}", 1, minutes=minutes)
    scene.main(0)
    scene.submit("two", 2)
    scene.submit("one", 1, minutes=1)
    assert scene.backfill(0) == ["two at 120 on 1,3", "one at 180 on 2"]


def test_ends_are_removed_in_groups_with_shared_nodes_as_the_probe_shows() -> None:
    """As golden/slurm/probes/cons_tres_grouping.txt: ends 235, 242, ... 278, then 345, ...; two jobs wait."""
    scene = Scene(10, 8, select="cons_tres", scheduling={"bf_resolution_s": 60})
    origin = 1795024000
    for i, second in enumerate((115, 122, 129, 136, 143, 151, 158, 165, 172, 179)):
        scene.submit(str(i + 1), 1, n_tasks=8, minutes=2 if i < 7 else 3, at=origin + second)
        assert scene.main(origin + second) == [f"{i + 1} on {i}"]
    scene.submit("11", 1, n_tasks=8, minutes=1, at=origin + 190)
    scene.submit("12", 3, n_tasks=24, minutes=1, at=origin + 190)
    expected = [f"11 at {origin + 278:g} on 0", f"12 at {origin + 278:g} on 1,2,3"]
    assert scene.backfill(origin + 196) == expected
    assert scene.backfill(origin + 211) == expected


def test_the_windows_of_groups_double() -> None:
    scene = Scene(4, 1, select="cons_tres")
    for i, minutes in enumerate((1, 2, 3, 20)):
        scene.submit(f"r{i}", 1, minutes=minutes)
    scene.main(0)
    scene.submit("one", 1)
    scene.submit("two", 2)
    scene.submit("four", 4)
    # The first end is 60, so windows are up to 90 + 30, 90 + 60, 90 + 120: groups {60, 120}, {180}, {1200}.
    assert scene.backfill(0) == ["one at 120 on 0", "two at 180 on 1,2", "four at 1200 on 0,1,2,3"]


def test_an_end_that_has_passed_is_expected_soon() -> None:
    scene = Scene(1)
    scene.submit("a", 1, minutes=1)
    scene.main(0)
    scene.submit("b", 1)
    assert scene.backfill(75) == ["b at 76 on 0"]
    scene = Scene(1, select="cons_tres")
    scene.submit("a", 1, minutes=1)
    scene.main(0)
    scene.submit("b", 1)
    assert scene.backfill(75) == ["b at 90 on 0"]  # the end and 30 seconds
    assert scene.backfill(95) == ["b at 96 on 0"]


def test_an_exclusive_job_that_starts_is_in_the_map_but_others_are_not() -> None:
    for exclusive, expected in ((True, "b at 600 on 0"), (False, "b at 600 on 0")):
        scene = Scene(1, 4, select="cons_tres")
        scene.submit("a", 1, n_tasks=1, exclusive=exclusive)
        scene.submit("b", 1, n_tasks=4, minutes=1)
        assert scene.backfill(0) == ["a on 0", expected]


def test_a_plan_takes_whole_nodes() -> None:
    scene = Scene(1, 4, select="cons_tres")
    scene.submit("a", 1, n_tasks=4)
    scene.main(0)
    scene.submit("b", 1, n_tasks=1)
    scene.submit("c", 1, n_tasks=1)
    assert scene.backfill(0) == ["b at 600 on 0", "c at 1200 on 0"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "b c d e a a a"),
        ({"bf_max_job_test": 2}, "b c"),
        ({"bf_max_job_user": 1}, "b d"),
        ({"bf_max_job_part": 3}, "b c d"),
        ({"bf_max_job_array_resv": 2}, "b c d e a a"),
        ({"bf_window_s": 1_300}, "b c"),
        ({"bf_min_age_reserve_s": 1}, ""),
    ],
)
def test_options_of_backfill_limit_its_plans(options: dict[str, Any], expected: str) -> None:
    scene = Scene(1, scheduling=options)
    scene.submit("r", 1)
    scene.main(0)
    for name, user in (("b", "ann"), ("c", "ann"), ("d", "bob"), ("e", "bob")):
        scene.submit(name, 1, user=user, minutes=6)
    scene.submit("a", 1, tasks=[0, 1, 2], minutes=6)
    assert " ".join(one.split()[0] for one in scene.backfill(0)) == expected


def test_backfill_may_start_only_so_many_and_a_qos_may_have_no_plans() -> None:
    scene = Scene(3, scheduling={"bf_max_job_start": 2})
    for i in range(3):
        scene.submit(f"b{i}", 1)
    assert scene.backfill(0) == ["b0 on 0", "b1 on 1"]
    scene = Scene(1, accounts=accounts_of(qos=(Qos("free", flags=frozenset({"noreserve"})),)))
    scene.submit("a", 1)
    scene.submit("b", 1, qos="free")
    scene.submit("c", 1)
    assert scene.backfill(0) == ["a on 0", "c at 600 on 0"]


# --- the map of backfill ---


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    found = []
    for _ in range(draw(st.integers(0, 8))):
        begin = draw(st.integers(0, 18))
        found.append((begin, draw(st.integers(begin + 1, 24)), draw(st.integers(1, 15))))
    return found


def free_at(taken: list[tuple[int, int, int]]) -> Iterator[int]:
    for t in range(20):
        nodes = 15
        for begin, end, own in taken:
            if begin <= t < end:
                nodes &= ~own
        yield nodes


@given(plans(), st.integers(0, 19), st.integers(0, 12), st.integers(1, 15))
def test_the_map_is_as_free_nodes_by_seconds(
    taken: list[tuple[int, int, int]], begin: int, time: int, own: int
) -> None:
    found, end = _Map(0, 20, 15), begin + time
    for one in taken:
        found.take(*one)
    free = list(free_at(taken))
    inside = -1
    for t in range(begin, min(end, 19) + 1):
        inside &= free[t]
    offered, change = found.offered(begin, end, own)
    assert offered == inside & own
    if time:
        assert found.overlaps(begin, end, own) == any(own & ~free[t] for t in range(begin, min(end, 20)))
    changes = [t for t in range(begin + 1, 20) if free[t] & ~free[t - 1]]
    if changes and changes[0] <= end:
        assert change == changes[0]
    else:
        assert change in {0, *changes[:1]}


@given(plans(), st.integers(0, 19), st.integers(0, 12), st.integers(1, 15), st.integers(1, 4), st.integers(0, 24))
def test_attempts_with_too_few_nodes_are_skipped(
    taken: list[tuple[int, int, int]], begin: int, time: int, own: int, n: int, idle_at: int
) -> None:
    def may_start(nodes: int, until: float) -> bool:
        return until >= idle_at + nodes % 3

    found = _Map(0, 20, 15)
    for one in taken:
        found.take(*one)
    n_skipped, at = 0, float(begin)
    while True:  # one attempt after the other
        nodes, later = found.offered(at, at + time, own)
        if nodes.bit_count() >= n and (not later or may_start(nodes, later)):
            break
        if not later:
            assert found.skip(begin, time, own, n, may_start)[1] == -1
            return
        n_skipped, at = n_skipped + 1, later
    assert found.skip(begin, time, own, n, may_start) == (n_skipped, at, nodes, later)
