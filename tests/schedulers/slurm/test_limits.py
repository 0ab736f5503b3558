"""Limits of QOS and associations: worked examples with their reasons, and a sum over what runs as a slow twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.slurm_scenes import Scene, accounts_of

from pybatsched.machines.slurm_conf import Partition, Priorities
from pybatsched_schedulers.slurm.accounts import Limits, Qos
from pybatsched_schedulers.slurm.limits import LimitReason, _reason


def scene_of(limits: dict[str, Limits] | None = None, qos: tuple[Qos, ...] = (), **conf: Any) -> Scene:
    """Return four nodes of 4 CPUs that jobs share."""
    return Scene(4, 4, accounts=accounts_of(limits, qos), select="cons_tres", **conf)


@pytest.mark.parametrize(
    ("limits", "started", "reason"),
    [
        ({"ann": Limits(max_jobs=1)}, "ann bob eve", "AssocMaxJobsLimit"),
        ({"bio": Limits(grp_jobs=1)}, "ann eve", "AssocGrpJobsLimit"),
        ({"root": Limits(grp_jobs=2)}, "ann ann2", "AssocGrpJobsLimit"),
        ({"bio": Limits(grp_tres={"cpu": 3})}, "ann eve", "AssocGrpCpuLimit"),
        ({"bio": Limits(grp_tres={"mem": 999.0})}, "ann ann2 bob eve", ""),
        ({"bio": Limits(grp_tres={"node": 1})}, "ann ann2 eve", "AssocGrpNodeLimit"),
        ({"bio": Limits(grp_tres_run_mins={"cpu": 45})}, "ann ann2 eve", "AssocGrpCPURunMinutesLimit"),
        ({"ann": Limits(grp_tres_run_mins={"cpu": 45})}, "ann ann2 bob eve", ""),
    ],
)
def test_limits_of_associations_hold_with_what_runs(limits: dict[str, Limits], started: str, reason: str) -> None:
    scene = scene_of(limits)
    for name in ("ann", "ann2", "bob", "eve"):  # each 2 CPUs for 10 minutes: two on a node
        scene.submit(name, user=name[:3], n_tasks=2)
    assert " ".join(one.split()[0] for one in scene.main(0)) == started
    assert set(scene.reasons().values()) == ({reason} if reason else set())


@pytest.mark.parametrize(
    ("limits", "started", "reason"),
    [
        (Limits(grp_jobs=1), "a", "QOSGrpJobsLimit"),
        (Limits(max_jobs_per_user=1), "a c d", "QOSMaxJobsPerUserLimit"),
        (Limits(max_jobs_per_account=1), "a d", "MaxJobsPerAccount"),
        (Limits(grp_tres={"cpu": 5}), "a b", "QOSGrpCpuLimit"),
        (Limits(max_tres_per_user={"cpu": 3}), "a c d", "QOSMaxCpuPerUserLimit"),
        (Limits(max_tres_per_account={"cpu": 5}), "a b d", "MaxCpuPerAccount"),
        (Limits(max_tres_per_user={"billing": 3}), "a c d", "QOSMaxBillingPerUser"),
        (Limits(grp_tres_run_mins={"cpu": 20}), "a", "QOSGrpCPURunMinutesLimit"),
        (Limits(max_tres_run_mins_per_user={"cpu": 30}), "a c d", "MaxCpuRunMinsPerUser"),
        (Limits(max_tres_run_mins_per_account={"cpu": 45}), "a b d", "MaxCpuRunMinsPerAccount"),
    ],
)
def test_limits_of_a_qos_hold_for_all_users_and_accounts(limits: Limits, started: str, reason: str) -> None:
    scene = scene_of(qos=(Qos("long", limits=limits),))
    for name, user in (("a", "ann"), ("b", "ann"), ("c", "bob"), ("d", "eve")):
        scene.submit(name, user=user, n_tasks=2, qos="long")
    assert " ".join(one.split()[0] for one in scene.main(0)) == started
    assert set(scene.reasons().values()) == {reason}


def test_a_limit_of_a_qos_replaces_that_of_the_association_but_what_runs_counts_for_both() -> None:
    low = Qos("low", limits=Limits(grp_tres={"cpu": 8}))
    scene = scene_of({"bio": Limits(grp_tres={"cpu": 4, "node": 9})}, (low,))
    scene.submit("a", n_tasks=4)
    scene.submit("b", n_tasks=4, qos="low")  # only low's limit holds
    scene.submit("c", n_tasks=4)  # bio has 8 CPUs in use
    assert scene.main(0) == ["a on 0", "b on 1"]
    scene.end("a", 100)
    assert scene.main(100) == []
    assert scene.reasons() == {"c": "AssocGrpCpuLimit"}
    scene.end("b", 200)
    assert scene.main(200) == ["c on 0"]


@pytest.mark.parametrize(("flags", "started"), [(frozenset[str](), ["a on 0"]), (frozenset({"overpartqos"}), [])])
def test_the_qos_of_a_partition_comes_before_that_of_the_job(flags: frozenset[str], started: list[str]) -> None:
    of_partition = Qos("part", limits=Limits(grp_tres={"cpu": 4}))
    own = Qos("own", limits=Limits(max_tres={"cpu": 2}, grp_tres={"cpu": 2}), flags=flags)
    own_only = Qos("less", limits=Limits(grp_tres={"cpu": 2}), flags=flags)
    partition = Partition("batch", (0, 1, 2, 3), qos="part")
    scene = scene_of(qos=(of_partition, own, own_only), partitions=[partition])
    scene.submit("a", n_tasks=4, qos="less")
    assert scene.main(0) == started
    scene.submit("b", n_tasks=4, qos="own")
    assert scene.main(10) == []
    assert scene.reasons()["b"] in {"QOSGrpCpuLimit", "QOSMaxCpuPerJobLimit"}


def test_minutes_that_were_used_block_a_group_and_safe_counts_those_to_come() -> None:
    limits = {"bio": Limits(grp_tres_mins={"cpu": 30})}
    for enforce, expected in (("limits", ["b on 1"]), ("safe", [])):
        scene = scene_of(limits, priorities=Priorities(type="multifactor", half_life_s=float("inf")))
        scene.controller.use._is_safe = enforce == "safe"
        scene.controller.update_priorities(0)
        scene.submit("a", n_tasks=2, minutes=10)
        assert scene.main(0) == ["a on 0"]
        scene.controller.update_priorities(300)  # 10 CPU minutes used, 10 to come
        scene.submit("b", n_tasks=2, minutes=10, at=300)
        assert scene.main(300) == [one.replace("1", "0") for one in expected]
        if enforce == "safe":
            assert scene.reasons() == {"b": "AssocGrpCPUMinutesLimit"}
            scene.end("a", 330)  # 11 used in all: 20 more are too many, 19 are not
            scene.controller.update_priorities(360)
            assert scene.main(360) == []
            scene.submit("c", n_tasks=1, minutes=19, at=360)
            assert scene.main(361) == ["c on 0"]
        else:
            scene.end("a", 600)
            scene.end("b", 900)
            scene.controller.update_priorities(900)  # 20 + 20
            scene.submit("c", at=900)
            assert scene.main(900) == []
            assert scene.reasons() == {"c": "AssocGrpCPUMinutesLimit"}


def test_minutes_of_running_jobs_become_less_with_each_update() -> None:
    scene = scene_of({"bio": Limits(grp_tres_run_mins={"cpu": 30})})
    scene.submit("a", n_tasks=2, minutes=10)
    scene.submit("b", n_tasks=2, minutes=10)
    assert scene.main(0) == ["a on 0"]
    scene.controller.update_priorities(240)
    assert scene.main(240) == []  # 12 + 20
    scene.controller.update_priorities(300)
    assert scene.main(300) == ["b on 0"]
    scene.end("a", 310)
    scene.end("b", 310)
    assert not +scene.controller.use._rules_of(scene.records["a"]).tres[0].use.seconds


@pytest.mark.parametrize(
    ("limits", "fields", "reason"),
    [
        (Limits(max_wall_s=300), {}, "MaxWallDurationPerJobLimit"),
        (Limits(max_tres={"cpu": 1}), {}, "MaxCpuPerJobLimit"),
        (Limits(max_tres={"node": 1}), {"nodes": 2}, "MaxNodePerJobLimit"),
        (Limits(max_tres_per_node={"cpu": 1}), {}, "MaxCpuPerNode"),
        (Limits(max_tres_per_node={"cpu": 1}), {"nodes": 2}, ""),
        (Limits(max_tres_mins={"cpu": 19}), {}, "MaxCpuMinutesPerJobLimit"),
        (Limits(max_tres_mins={"cpu": 20}), {}, ""),
        (Limits(grp_tres={"cpu": 1}), {}, "GrpCpuLimit"),
        (Limits(grp_tres_run_mins={"cpu": 19}), {}, "GrpCPURunMinutesLimit"),
        (Limits(grp_jobs=0), {}, "GrpJobsLimit"),
        (Limits(grp_submit=0), {}, "GrpSubmitJobsLimit"),
        (Limits(grp_tres={"gres/gpu": 0}), {}, ""),
    ],
)
@pytest.mark.parametrize("of", ["QOS", "Assoc"])
def test_jobs_that_no_limit_lets_start_are_rejected(of: str, limits: Limits, fields: Any, reason: str) -> None:
    scene = scene_of({"ann": limits} if of == "Assoc" else {}, (Qos("q", limits=limits if of == "QOS" else Limits()),))
    record = scene.submit("a", **{"n_tasks": 2, **fields}, qos="q")
    scene.controller.drop(record)
    assert scene.controller.refused_by(record) == (of + reason if reason else "")


def test_a_qos_can_demand_least_resources() -> None:
    scene = scene_of(qos=(Qos("big", limits=Limits(min_tres={"cpu": 4, "gres/gpu": 1})),))
    record = scene.submit("a", n_tasks=2, qos="big")
    assert scene.controller.refused_by(record) == "QOSMinCpuNotSatisfied"
    assert scene.controller.refused_by(scene.submit("b", n_tasks=4, qos="big")) == "QOSMinGRES"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"ann": Limits(max_submit=2)}, "AssocMaxSubmitJobLimit"),
        ({"bio": Limits(grp_submit=2)}, "AssocGrpSubmitJobsLimit"),
        ({"QOS": Limits(grp_submit=2)}, "QOSGrpSubmitJobsLimit"),
        ({"QOS": Limits(max_submit_per_user=2)}, "QOSMaxSubmitJobPerUserLimit"),
        ({"QOS": Limits(max_submit_per_account=2)}, "MaxSubmitJobsPerAccount"),
    ],
)
def test_submitted_jobs_are_limited_from_submission_to_end(limits: dict[str, Limits], reason: str) -> None:
    scene = scene_of(limits, (Qos("q", limits=limits.get("QOS", Limits())),))
    scene.submit("a", qos="q")
    rest = scene.submit("b", qos="q", tasks=[0])
    other = scene.submit("eve", user="eve")
    refused = scene.controller.refused_by
    assert refused(rest) == reason
    assert refused(other) == ""
    assert scene.main(0) == ["a on 0", "b_0 on 0", "eve on 0"]
    assert refused(rest) == reason
    scene.end("a", 100)
    assert refused(rest) == ""
    scene.controller.add_task(scene.submit("c", qos="q", at=100, tasks=[0]), 1)
    assert refused(rest) == reason
    scene.controller.drop(scene.records["c"])
    assert refused(rest) == ""


def test_a_job_over_its_limits_does_not_block_others_and_gets_no_plan() -> None:
    scene = scene_of({"ann": Limits(grp_tres={"cpu": 16})})
    scene.submit("a", 4, n_tasks=16)
    scene.submit("b", 4, n_tasks=16)
    scene.submit("c", 4, n_tasks=16, user="eve")
    scene.submit("d", 1, user="eve")
    assert scene.main(0) == ["a on 0,1,2,3"]
    assert scene.reasons() == {"b": "AssocGrpCpuLimit", "c": "Resources", "d": "Priority"}
    assert scene.backfill(0) == ["c at 600 on 0,1,2,3", "d at 1200 on 0"]


def test_reasons_say_which_limit_of_whom_it_is() -> None:
    limits = {"bob": Limits(grp_tres={"cpu": 1, "mem": 9}), "eve": Limits(max_jobs=1)}
    scene = scene_of(limits, (Qos("long", limits=Limits(max_tres_run_mins_per_user={"cpu": 15})),))
    for name, user in (("a", "ann"), ("b", "bob"), ("c", "eve"), ("d", "eve")):
        scene.submit(name, user=user, n_tasks=2)
    for name in ("e", "f"):
        scene.submit(name, user="ann", n_tasks=1, qos="long")
    scene.main(0)
    assert {name: reason.limit for name, reason in scene.reasons().items() if isinstance(reason, LimitReason)} == {
        "b": "GrpTRES cpu=1 of user bob in account bio", "d": "1 running jobs of user eve in account chem",
        "f": "MaxTRESRunMinsPerUser cpu=15 of user ann in QOS long",
    }  # fmt: skip


def test_reasons_are_in_slurms_words() -> None:
    words = [_reason("QOS", "Max{}PerJob", tres) for tres in ("cpu", "mem", "node", "gres/gpu", "billing", "license/x")]
    assert words == [
        "QOSMaxCpuPerJobLimit", "QOSMaxMemoryPerJob", "QOSMaxNodePerJobLimit", "QOSMaxGRESPerJob",
        "QOSMaxBillingPerJob", "QOSMaxUnknownPerJob",
    ]  # fmt: skip
    assert _reason("QOS", "Grp{}", "mem") == "QOSGrpMemLimit"
    assert _reason("Assoc", "Grp{}Minutes", "mem") == "AssocGrpMemMinutes"


@given(st.data())
def test_what_counts_is_the_sum_over_what_runs(data: st.DataObject) -> None:
    most_user, most_group, most_nodes = (data.draw(st.integers(1, 8)) for _ in range(3))
    low = Qos("low", limits=Limits(max_tres_per_user={"cpu": most_user}))
    scene = scene_of({"bio": Limits(grp_tres={"cpu": most_group, "node": most_nodes})}, (low,))
    running: list[str] = []
    for i in range(data.draw(st.integers(1, 12))):
        name = f"j{i}"
        scene.submit(
            name, user=data.draw(st.sampled_from(["ann", "bob", "eve"])), at=i * 10,
            qos=data.draw(st.sampled_from(["normal", "low"])), n_tasks=data.draw(st.integers(1, 6)),
        )  # fmt: skip
        running += [one.split()[0] for one in scene.main(i * 10)]
        records = [scene.records[one] for one in running]
        for user in ("ann", "bob", "eve"):
            own = [one.tres["cpu"] for one in records if one.user == user and one.qos is low]
            assert sum(own) <= most_user
        of_bio = [one for one in records if one.user != "eve"]
        assert sum(one.tres["cpu"] for one in of_bio) <= most_group
        assert len({node for one in of_bio if one.placement for node in one.placement.nodes}) <= most_nodes
        ended = data.draw(st.integers(0, 2 * len(running)))
        if ended < len(running):
            scene.end(running.pop(ended), i * 10 + 5)
