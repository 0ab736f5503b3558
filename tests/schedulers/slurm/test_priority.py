"""Priorities: worked examples, properties against slow twins, and every row of recorded sprio, sshare and squeue."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.places import GOLDEN, ROOT, module_of

from pybatsched.errors import InputError
from pybatsched.machines.slurm_conf import NodeSpec, Partition, Priorities, SlurmConf
from pybatsched_schedulers.slurm.accounts import Accounts, Association, Qos, read_accounts
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request
from pybatsched_schedulers.slurm.priority import PriorityEngine
from pybatsched_schedulers.slurm.usage import FairShare, billing, load_usage, share_rows

decisions: Any = module_of("slurm_decisions", ROOT / "benchmarks" / "slurm_decisions.py")
RECORDED = sorted((GOLDEN / "slurm").glob("s*/run_*"))
#: Rows of sprio, sshare and squeue (waiting jobs) in each recorded run. All are equal in all digits that are printed.
ROWS = {
    "s1_whole_nodes/run_a": (5_088, 1_116, 6_085),
    "s1_whole_nodes/run_b": (5_370, 1_116, 6_424),
    "s1_whole_nodes_limits/run_a": (4_704, 1_116, 5_631),
    "s2_fifo_backfill/run_a": (0, 0, 5_302),
    "s2_fifo_backfill/run_b": (0, 0, 6_142),
    "s3_cores_mem_gpu/run_a": (2_075, 1_098, 2_492),
    "s4_qos_preempt/run_a": (1_675, 1_242, 1_926),
}
NODES = tuple(NodeSpec(f"n{i}", 8, 16_000) for i in range(4))
BATCH = Partition("batch", (0, 1, 2, 3), job_factor=10)
HIGH = Qos("high", 100)


def conf_of(enforce: str = "", partitions: tuple[Partition, ...] = (BATCH,), **priorities: Any) -> SlurmConf:
    found = Priorities(
        **{"type": "multifactor", "calc_period_s": 60, "half_life_s": 600, "max_age_s": 600, **priorities}
    )
    return SlurmConf(
        "x", NODES, {one.name: one for one in partitions}, priorities=found, enforce=frozenset(filter(None, [enforce]))
    )


def tree(*lines: str) -> Accounts:
    """Return the accounts of lines such as "bio 20" and "bio/ann 4", each after the one above it."""
    root = Association("root")
    accounts = {"root": root}
    for line in ("root/root 1", *lines):
        path, shares = line.split()
        *above, name = path.split("/")
        is_user = len(above) == 1
        parent = accounts[above[-1] if above else "root"]
        one = Association(
            parent.account if is_user else name,
            name if is_user else "",
            parent=parent,
            shares=None if shares == "parent" else int(shares),
        )
        parent.children.append(one)
        if not is_user:
            accounts[name] = one
    return Accounts(root, {"high": HIGH, "low": Qos("low", 10)})


def use(accounts: Accounts, user: str, raw: float) -> None:
    one = accounts.find(user)
    assert one is not None
    for above in one.upwards():
        above.usage.raw += raw


def job(accounts: Accounts | None = None, user: str = "", **fields: Any) -> Record:
    found = accounts.find(user) if accounts is not None else None
    return Record(**{
        "id": 1, "request": Request(), "partition": BATCH, "limit_s": 600, "submit_at": 0, "user": user,
        "association": found, "was_seen": True, **fields,
    })  # fmt: skip


def running(accounts: Accounts, user: str, started_at: int, n_cpus: int = 4, **fields: Any) -> Record:
    tres = {"cpu": n_cpus, "mem": 8_000, "node": 1}
    return job(accounts, user, started_at=started_at, placement=Placement((0,), (n_cpus,)), tres=tres, **fields)


def factors(accounts: Accounts, **priorities: Any) -> dict[str, float]:
    shares = FairShare(conf_of(**priorities).priorities, accounts, counts_tres=False)
    return {one.user: round(shares.factor(one), 6) for one in accounts.users}


# --- recorded ---


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN/slurm")
@pytest.mark.parametrize("run", RECORDED, ids=lambda run: f"{run.parent.name}/{run.name}")
def test_every_recorded_priority_factor_and_usage_is_equal(run: Path) -> None:
    replay = decisions.Replay(decisions.Recording(run), with_logged_priorities=False)
    score = replay.run()
    found = replay.snapshots
    assert [one.differences for one in found.values()] == [[], [], []]
    assert tuple(one.n_rows for one in found.values()) == ROWS[f"{run.parent.name}/{run.name}"]
    assert found["sprio"].n_missing == 0
    assert (score.n_same_nodes, score.n_same_plans) == (score.n_starts, score.n_plans)


# --- fair share ---


def test_fair_tree_ranks_accounts_first_then_their_users() -> None:
    accounts = tree("bio 1", "chem 3", "bio/ann 1", "bio/bob 3", "chem/eve 1", "chem/dan 1")
    use(accounts, "ann", 10)
    use(accounts, "bob", 20)
    use(accounts, "eve", 60)
    use(accounts, "dan", 10)
    # Levels: root infinite; chem 3/5 / 0.7 = 0.857, bio 1/5 / 0.3 = 0.667; in chem dan 3.5, eve 0.583; in bio bob, ann.
    assert factors(accounts) == {"root": 1, "dan": 0.8, "eve": 0.6, "bob": 0.4, "ann": 0.2}
    chem = accounts.accounts["chem"]
    assert (round(chem.level_fs, 6), chem.norm_shares) == (round(0.6 / 0.7, 6), 0.6)


def test_fair_tree_ties_share_a_rank_and_tied_accounts_continue_it() -> None:
    accounts = tree("bio 1", "chem 1", "bio/ann 1", "bio/bob 1", "chem/eve 1", "chem/dan 0")
    # All levels but that of dan, who has no shares, are infinite: all users share the rank of user root.
    assert factors(accounts) == {"root": 1, "ann": 1, "bob": 1, "eve": 1, "dan": 0.2}
    use(accounts, "ann", 5)
    assert factors(accounts) == {"root": 1, "eve": 1, "dan": 0.6, "bob": 0.4, "ann": 0.2}


def test_shares_of_the_parent_put_users_beside_the_account() -> None:
    accounts = tree("bio parent", "chem 1", "bio/ann 2", "bio/bob parent", "chem/eve 1")
    use(accounts, "ann", 60)
    use(accounts, "eve", 40)
    # root: shares 1 (root), 1 (chem), 2 (ann). bob has the greatest level, ann 0.5 / 0.6, chem 0.25 / 0.4.
    assert factors(accounts) == {"root": 1, "bob": 1, "ann": 0.5, "eve": 0.25}


def test_classic_fair_share_counts_usage_of_the_accounts_above() -> None:
    accounts = tree("bio 1", "chem 2", "bio/ann 1", "bio/bob 3", "chem/eve 1", "chem/dan parent")
    use(accounts, "bob", 60)
    use(accounts, "eve", 40)
    # Shares: bio 1/4, chem 2/4. ann: effective 0 + (0.6 - 0) / 4 = 0.15, shares 1/16. bob: 0.6, shares 3/16.
    # eve and dan: those of chem, as eve has all shares of its level.
    classic = {"flags": frozenset({"NO_FAIR_TREE"})}
    expected = {"root": 1.0, "ann": 2 ** (-0.15 * 16), "bob": 2 ** (-0.6 * 16 / 3), "eve": 2**-0.8, "dan": 2**-0.8}
    assert factors(accounts, **classic) == {user: round(value, 6) for user, value in expected.items()}
    damped = factors(accounts, dampening=2, **classic)
    assert damped["bob"] == round(2 ** (-0.6 * 8 / 3), 6)


def test_depth_oblivious_multiplies_the_ratios_of_usage_to_shares() -> None:
    accounts = tree("bio 1", "bio/ann 1", "bio/bob 3")
    use(accounts, "ann", 25)
    use(accounts, "bob", 75)
    oblivious = {"flags": frozenset({"NO_FAIR_TREE", "DEPTH_OBLIVIOUS"})}
    # Both use their shares of bio, so both have the ratio of bio, 1 / (1/2).
    assert factors(accounts, **oblivious) == {"root": 1, "ann": 0.25, "bob": 0.25}
    use(accounts, "ann", 100)
    # bio has more than its shares and bob less than his of bio: 0.5 counts with the power 1 / (1 + (5 log 2)^2).
    bob = 2 * 0.5 ** (1 / (1 + (5 * math.log(2)) ** 2))
    assert factors(accounts, **oblivious) == {"root": 1, "ann": 2**-5.0, "bob": round(2**-bob, 6)}


shares_of = st.one_of(st.integers(0, 3), st.just("parent"))


@st.composite
def random_trees(draw: st.DrawFn) -> Accounts:
    lines: list[str] = []
    accounts: list[str] = []
    for i in range(draw(st.integers(1, 5))):
        is_below = bool(accounts) and draw(st.booleans())
        path = ["root", draw(st.sampled_from(accounts))] if is_below else []
        accounts.append(f"a{i}")
        lines.append(f"{'/'.join([*path, f'a{i}'])} {draw(shares_of)}")
    lines += [f"{draw(st.sampled_from(accounts))}/u{i} {draw(shares_of)}" for i in range(draw(st.integers(1, 8)))]
    found = tree(*lines)
    for one in found.users:
        use(found, one.user, draw(st.sampled_from([0, 0, 1, 2, 4, 8])))
    return found


def listed_users(siblings: list[Association], parent: Association, *, tied: bool) -> list[tuple[str, bool]]:
    """Return the users in the order of Fair Tree, each with whether it shares the rank of the one before."""
    level = sum(one.shares for one in siblings if one.shares is not None)

    def level_of(one: Association) -> float:
        if one.shares is None:
            return math.inf if one.user else float(0xFFFFFFFE)
        share = one.shares / level if level else 0.0
        used = one.usage.raw / parent.usage.raw if parent.usage.raw else 0.0
        return 0.0 if not share else share / used if used else math.inf

    users: list[tuple[str, bool]] = []
    previous: float | None = None
    for i, one in enumerate(sorted(siblings, key=lambda one: (-level_of(one), not one.user))):
        same = level_of(one) == previous or (i == 0 and tied)
        previous = level_of(one)
        users += [(one.user, same)] if one.user else listed_users(compared_below(one), one, tied=same)
    return users


def compared_below(parent: Association) -> list[Association]:
    """Return the associations whose shares are compared below an account."""
    found: list[Association] = []
    if parent.shares is None:
        return found
    stack = list(parent.children)
    while stack:
        one = stack.pop(0)
        found.append(one)
        if not one.user and one.shares is None:
            stack += one.children
    return found


@settings(max_examples=200)
@given(random_trees())
def test_fair_tree_is_as_its_twin(accounts: Accounts) -> None:
    users = listed_users(compared_below(accounts.root), accounts.root, tied=False)
    expected: dict[str, float] = {}
    rank = len(users)
    for i, (user, tied) in enumerate(users):
        rank = rank if tied else len(users) - i
        expected[user] = round(rank / len(users), 6)
    found = factors(accounts)
    assert sorted(found) == sorted(expected)
    assert sorted(found.values()) == sorted(expected.values())


@given(
    st.integers(0, 300), st.integers(1, 500), st.integers(1, 12), st.sampled_from(["", "limits"]),
    st.sampled_from([600.0, 3_600.0, math.inf]),
)  # fmt: skip
def test_usage_is_a_sum_of_decayed_parts(
    begin: int, time_s: int, n_updates: int, enforce: str, half_life: float
) -> None:
    accounts = tree("bio 1", "bio/ann 1")
    engine = PriorityEngine(conf_of(enforce, half_life_s=half_life), accounts)
    record, end, decay = running(accounts, "ann", begin), begin + time_s, 1 - 0.693 / half_life
    engine.update([], [], 0)
    expected, has_ended = 0.0, False
    for k in range(1, n_updates + 1):
        now = k * 60
        if not has_ended and end < now and begin < now:
            engine.ended(record, end)
            has_ended = True
        engine.update([], [record] if begin <= now and not has_ended else [], now)
    for k in range(1, n_updates + 1):  # the part in each period, as old at its end as it is long
        part = max(0, min(end, k * 60) - max(begin, k * 60 - 60))
        if k * 60 <= end:
            expected += 4 * part * decay**part * decay ** (60 * (n_updates - k))
        elif enforce and k <= n_updates:  # charged at the end of the job, before the decay of this period
            expected += 4 * part * decay**part * decay ** (60 * (n_updates - k + 1))
    ann, bio = accounts.find("ann"), accounts.accounts["bio"]
    assert ann is not None
    assert ann.usage.raw == pytest.approx(expected)
    assert bio.usage.raw == accounts.root.usage.raw == ann.usage.raw


def test_charges_of_qos_tres_and_wall_time() -> None:
    fixed = Qos("fixed", usage_factor=0.5, flags=frozenset({"nodecay"}))
    ours = Partition("ours", (0,), billing_weights={"cpu": 1.0, "mem": 0.001, "gres/gpu": 9.0}, qos="part")
    accounts = tree("bio 1", "bio/ann 1")
    accounts.qos |= {"fixed": fixed, "part": Qos("part")}
    engine = PriorityEngine(conf_of("limits", partitions=(ours,)), accounts)
    engine.update([], [], 0)
    record = running(accounts, "ann", 0, partition=ours, qos=fixed)
    engine.update([], [record], 60)
    decayed = 60 * (1 - 0.693 / 600) ** 60 * 0.5
    ann = accounts.find("ann")
    assert ann is not None
    assert ann.usage.raw == pytest.approx(decayed * 12)
    assert ann.usage.wall_s == pytest.approx(decayed)
    assert ann.usage.tres == pytest.approx({"cpu": 4 * decayed, "mem": 8_000 * decayed, "node": decayed})
    assert (fixed.usage.raw, fixed.usage.wall_s) == (30 * 12, 30)
    assert accounts.qos["part"].usage.raw == pytest.approx(decayed * 12)
    engine.update([], [], 120)
    assert fixed.usage.raw == 30 * 12
    assert ann.usage.raw == pytest.approx(decayed * 12 * (1 - 0.693 / 600) ** 60)


def test_billing_is_a_sum_or_the_maximum_of_the_resources_of_nodes() -> None:
    tres = {"cpu": 4, "mem": 8_192, "gres/gpu": 1, "license/x": 2}
    weighted = Partition("p", billing_weights={"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 3.0, "license/x": 5.0})
    assert billing(tres, BATCH) == 4
    assert billing(tres, weighted) == 4 + 2 + 3 + 10
    assert billing(tres, weighted, takes_maximum=True) == 4 + 10


def test_usage_is_reset_at_the_end_of_a_period() -> None:
    accounts = tree("bio 1", "bio/ann 1")
    engine = PriorityEngine(conf_of(usage_reset="monthly", half_life_s=math.inf), accounts)
    day = int(dt.datetime(2026, 1, 30, tzinfo=dt.UTC).timestamp())
    engine.update([], [], day)
    use(accounts, "ann", 100)
    engine.update([], [], day + 86_400)
    assert accounts.root.usage.raw == 100
    engine.update([], [], day + 2 * 86_400)
    assert accounts.root.usage.raw == 0
    at_once = PriorityEngine(conf_of(usage_reset="now"), accounts)
    use(accounts, "ann", 100)
    at_once.update([], [], 0)
    assert accounts.root.usage.raw == 0
    use(accounts, "ann", 100)
    at_once.update([], [], 60)
    assert accounts.root.usage.raw > 0


@pytest.mark.parametrize(
    ("period", "ends"),
    [
        ("daily", (2026, 5, 15)), ("weekly", (2026, 5, 17)), ("monthly", (2026, 6, 1)), ("quarterly", (2026, 7, 1)),
        ("yearly", (2027, 1, 1)),
    ],
)  # fmt: skip
def test_ends_of_periods(period: str, ends: tuple[int, int, int]) -> None:
    accounts = tree("bio 1", "bio/ann 1")
    engine = PriorityEngine(conf_of(usage_reset=period, half_life_s=math.inf), accounts)
    engine.update([], [], int(dt.datetime(2026, 5, 14, 13, 5, tzinfo=dt.UTC).timestamp()))
    use(accounts, "ann", 1)
    last = int(dt.datetime(*ends, tzinfo=dt.UTC).timestamp())
    engine.update([], [], last - 1)
    assert accounts.root.usage.raw == 1
    engine.update([], [], last)
    assert accounts.root.usage.raw == 0


# --- factors ---


def test_all_factors_of_a_job() -> None:
    accounts = tree("bio 1", "bio/ann 1")
    weights: dict[str, Any] = {"age": 1_000, "fairshare": 100, "jobsize": 500, "partition": 50, "qos": 30, "assoc": 7}
    other = Partition("other", (0, 1), job_factor=40)
    conf = conf_of(partitions=(BATCH, other), tres={"cpu": 200.0, "mem": 10.0, "gres/gpu": 1.0}, **weights)
    for one in accounts.associations:
        one.priority = 4 if one.user == "root" else 2
    engine = PriorityEngine(conf, accounts)
    request = Request(min_nodes=2, n_tasks=4, cpus_per_task=2, cpu_memory=1_000)
    record = job(accounts, "ann", request=request, qos=HIGH, nice=10, was_seen=False)
    engine.submitted(record, 0)
    expected = {
        "age": 0.0, "fairshare": 1.0, "jobsize": (2 / 4 + 8 / 32) / 2, "partition": 10 / 40, "qos": 1.0, "assoc": 0.5,
        "cpu": 8 / 32, "mem": 8_000 / 64_000, "gres/gpu": 0.0,
    }  # fmt: skip
    assert record.factors == expected
    assert record.priority == 100 + 500 * 0.375 + 50 / 4 + 30 + 3.5 + 200 / 4 + 10 / 8 - 10
    record.was_seen, record.n_cpus_counted = True, 16
    engine.update([record], [], 300)
    assert record.factors == {**expected, "age": 0.5, "jobsize": 0.5}
    engine.update([record], [], 100_000)
    assert record.factors["age"] == 1.0
    assert next(engine.rows([record])) == (
        "1", "ann", "batch", "1437", "1000", "1.0000000", "100", "1.0000000", "250", "0.5000000", "12", "0.2500000",
        "30", "1.0000000", "cpu=50,mem=1", "cpu=0.25,mem=0.12", "10",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "partition", "expected"),
    [
        (Request(n_tasks=2, cpu_memory=100), BATCH, {"cpu": 2, "mem": 200, "node": 1}),
        (Request(min_nodes=2, n_tasks=2, node_memory=100), BATCH, {"cpu": 2, "mem": 200, "node": 2}),
        (Request(n_tasks=3), Partition("p", (0,), def_mem_per_cpu=7), {"cpu": 3, "mem": 21, "node": 1}),
        (Request(n_tasks=3), Partition("p", (0,), def_mem_per_node=7), {"cpu": 3, "mem": 7, "node": 1}),
        (Request(min_nodes=3), BATCH, {"cpu": 1, "mem": 48_000, "node": 3}),
        (
            Request(min_nodes=2, gpus_per_node=3, gpu_type="a100", node_memory=1),
            BATCH,
            {"cpu": 1, "mem": 2, "node": 2, "gres/gpu": 6, "gres/gpu:a100": 6},
        ),
    ],
)
def test_what_a_job_asks_for(request_: Request, partition: Partition, expected: dict[str, float]) -> None:
    engine = PriorityEngine(conf_of(partitions=(partition,)), None)
    assert engine.requested(job(request=request_, partition=partition)) == expected


def test_flags_of_factors() -> None:
    not_normal = frozenset({"NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_ASSOC", "NO_NORMAL_TRES", "ACCRUE_ALWAYS"})
    accounts = tree("bio 1", "bio/ann 1")
    engine = PriorityEngine(
        conf_of(flags=not_normal, age=1, partition=1, qos=1, tres={"cpu": 1.0, "node": 1.0}), accounts
    )
    record = job(accounts, "ann", qos=HIGH, was_seen=False, request=Request(min_nodes=3, n_tasks=5))
    engine.submitted(record, 60)
    assert record.factors == {
        "age": 0.1, "fairshare": 0, "jobsize": 0, "partition": 10, "qos": 100, "assoc": 0, "cpu": 5, "node": 3,
    }  # fmt: skip
    relative = conf_of(flags=frozenset({"SMALL_RELATIVE_TO_TIME"}), jobsize=1_000)
    assert priority_of(relative, Request(min_nodes=2, n_tasks=4)) == 1_000 * 16 / 10 / 32
    assert priority_of(conf_of(jobsize=1_000, favor_small=True), Request(min_nodes=1, n_tasks=8)) == 750
    assert priority_of(conf_of(jobsize=1_000), Request(min_nodes=9, n_tasks=99)) == 1_000


def priority_of(conf: SlurmConf, request: Request = Request(), **fields: Any) -> float:  # noqa: B008
    record = job(request=request, **fields)
    PriorityEngine(conf, None).submitted(record, 0)
    return record.priority


def test_priorities_are_at_least_1_and_do_not_fall_with_incr_only() -> None:
    assert priority_of(conf_of(), nice=100) == 1
    assert priority_of(conf_of(), nice=-(2**40)) == 2**32 - 1
    accounts = tree("bio 1", "bio/ann 1")
    engine = PriorityEngine(conf_of(flags=frozenset({"INCR_ONLY"}), fairshare=100), accounts)
    record = job(accounts, "ann")
    engine.submitted(record, 0)
    use(accounts, "ann", 100)
    engine.update([record], [], 60)
    assert record.priority == 100
    assert record.factors["fairshare"] == 0.5


def test_a_job_without_accounts_has_no_fair_share() -> None:
    engine = PriorityEngine(conf_of("limits", age=600, fairshare=100), None)
    record = job()
    engine.submitted(record, 0)
    engine.update([record], [], 60)
    engine.ended(record, 60)
    assert (record.factors["fairshare"], record.priority) == (0, 60)


def test_basic_priorities_fall_with_each_job() -> None:
    engine = PriorityEngine(conf_of(type="basic"), None)
    found = []
    for nice in (0, 0, 5, 0, -10, 0):
        record = job(nice=nice)
        engine.submitted(record, 0)
        found.append(int(record.priority))
    engine.update([record], [], 60)
    top = 4_294_901_759
    assert found == [top, top - 1, top - 7, top - 8, top + 1, top - 9]
    assert record.priority == top - 9


def test_classic_fair_share_takes_the_usage_at_the_first_waiting_job_of_a_user() -> None:
    accounts = tree("bio 1", "bio/ann 1", "bio/bob 1")
    engine = PriorityEngine(conf_of(flags=frozenset({"NO_FAIR_TREE"}), fairshare=1_000), accounts)
    engine.update([], [], 0)
    first, last = running(accounts, "ann", 0, place=1), running(accounts, "bob", 0, place=4)
    waiting = [job(accounts, "ann", place=2), job(accounts, "bob", place=3)]
    for record in waiting:
        engine.submitted(record, 0)
    engine.update(waiting, [first, last], 60)
    # Accounts are computed before jobs are charged: bio has used nothing. ann has used all at its job, bob nothing.
    assert [record.factors["fairshare"] for record in waiting] == [2 ** (-0.5 * 4), 1.0]
    engine.update(waiting, [first, last], 120)
    assert waiting[1].factors["fairshare"] < 0.5


# --- sshare ---


def test_usage_is_read_from_sshare_and_printed_as_sshare_does(tmp_path: Path) -> None:
    header = "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS\n"
    rows = (
        "root|||0.000000|100||1.000000||\n root|root|1|0.500000|0|0.000000|0.000000|1.000000|inf\n"
        " bio||1|0.500000|100|1.000000|1.000000||0.500000\n"
        "  bio|ann|3|1.000000|100|1.000000|1.000000|0.333333|1.000000\n"
        "  bio|bob|parent|0.500000|0|0.000000|0.000000|0.666667|inf\n"
    )
    accounts = tree("bio 1", "bio/ann 3", "bio/bob parent")
    shares = FairShare(conf_of().priorities, accounts, counts_tres=False)
    for text in (header + rows, rows, "# t=1\n" + rows):
        (tmp_path / "sshare").write_text(text)
        load_usage(shares, tmp_path / "sshare")
        assert ["|".join(row) for row in share_rows(shares)] == rows.splitlines()
    classic = FairShare(conf_of(flags=frozenset({"NO_FAIR_TREE"})).priorities, accounts, counts_tres=False)
    assert [row[5:] for row in share_rows(classic)][::3] == [
        ("", "1.000000", "0.500000", "0.000000"),
        ("1.000000", "1.000000", "0.250000", "0.000000"),
    ]
    for text, message in (
        ("bio|eve|1|0|7\n", "line 1: unknown association of account bio, user eve"),
        ("Account|User\nbio|ann\n", "line 2: expected a column RawUsage with a number"),
    ):
        (tmp_path / "sshare").write_text(text)
        with pytest.raises(InputError, match=message):
            load_usage(shares, tmp_path / "sshare")
    with pytest.raises(InputError, match="No such file"):
        load_usage(shares, tmp_path / "missing")


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN/slurm")
def test_usage_of_a_recorded_sshare_gives_its_fair_shares(tmp_path: Path) -> None:
    replay = decisions.Replay(decisions.Recording(RECORDED[0]), with_logged_priorities=False)
    *_, rows = [one.info.splitlines() for one in replay.recorded_snapshots() if one.kind == "sshare"]
    (tmp_path / "sshare").write_text("\n".join(rows))
    accounts = read_accounts(RECORDED[0] / "assoc.psv", RECORDED[0] / "qos.psv")
    shares = FairShare(replay.recording.conf.priorities, accounts, counts_tres=False)
    load_usage(shares, tmp_path / "sshare")
    assert [row[7] for row in share_rows(shares)] == [row.split("|")[7] for row in rows]
