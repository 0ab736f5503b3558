"""Accounts from a dump and from tables of sacctmgr."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from support.places import GOLDEN

from pybatsched.errors import InputError
from pybatsched.machines.slurm_conf import Unsupported
from pybatsched_schedulers.slurm import accounts as accounts_module
from pybatsched_schedulers.slurm.accounts import Accounts, Association, Limits, Qos, read_accounts

RECORDED = sorted((GOLDEN / "slurm").glob("s*/run_*"))

DUMP = """# To edit this file start with a cluster line
Cluster - 'blue':Fairshare=1:QOS='normal':MaxJobs=50:MaxTRESPerJob=node=8,cpu=256
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'bio':Description='All: x':Fairshare=20:GrpTRES=cpu=40,mem=64G:GrpWall=60:DefaultQOS='low'
Account - 'proj':Description='x':Organization='x':Fairshare=2147483647:Priority=7:QOS='+high':MaxWallDurationPerJob=90
Parent - 'bio'
User - 'ann':DefaultAccount='bio':Fairshare=4:QOS='high,low':MaxJobs=3:MaxSubmitJobs=10:MaxTRESPerJob=cpu=64
User - 'ann':Partition='gpu':DefaultAccount='bio':Fairshare=2:GrpJobs=1:GrpSubmitJobs=9:MaxTRESMinsPerJob=cpu=99
Parent - 'proj'
User - 'ann':Fairshare=parent:QOS='-high':MaxTRESPerNode=cpu=2:GrpTRESMins=cpu=1000:GrpTRESRunMins=cpu=7
User - 'bob':DefaultAccount='proj':Fairshare=0:MaxJobsAccrue=5:MaxCPUs=7
"""

ASSOC = """Cluster|Account|User|Partition|ParentName|Share|Priority|GrpTRES|MaxJobs|MaxTRES|QOS|Def QOS|
blue|root||||1||||node=8|normal||
blue|root|root||||1|||||||
blue|lab|||sci|3||cpu=40||||
blue|sci|||root|parent||||||
blue|lab|ann|||5|||2||low|low|
red|root||||1||||||
"""

_QOS = (
    ("Name", "normal", "low", "high"),
    ("Priority", "50", "10", "100"),
    ("GraceTime", "00:00:00", "00:05:00", "00:00:00"),
    ("Preempt", "", "", "low,normal"),
    ("PreemptMode", "cluster", "requeue", "cluster"),
    ("Flags", "", "NoDecay,DenyOnLimit", ""),
    ("UsageThres", "", "0.5", ""),
    ("UsageFactor", "1.000000", "0.500000", "2.000000"),
    ("GrpTRES", "", "cpu=48", ""),
    ("GrpWall", "", "1-00:00:00", ""),
    ("MaxTRES", "", "cpu=8", ""),
    ("MaxTRESPerNode", "", "mem=1G", ""),
    ("MaxWall", "", "02:00:00", ""),
    ("MaxTRESPU", "", "cpu=40,gres/gpu=2", ""),
    ("MaxJobsPU", "", "3", ""),
    ("MaxSubmitPU", "", "4", ""),
    ("MaxTRESPA", "", "node=5", ""),
    ("MaxJobsPA", "", "6", ""),
    ("MaxSubmitPA", "", "7", ""),
    ("MinTRES", "", "cpu=1", ""),
)
QOS = "\n".join("|".join(column[i] for column in _QOS) for i in range(4)) + "\n"


def written(folder: Path, text: str, name: str = "dump.cfg") -> Path:
    (folder / name).write_text(text)
    return folder / name


def found(accounts: Accounts, user: str, account: str = "", partition: str = "") -> Association:
    one = accounts.find(user, account, partition)
    assert one is not None
    return one


def test_a_dump_has_the_tree_with_inherited_limits(tmp_path: Path) -> None:
    accounts = read_accounts(written(tmp_path, DUMP))
    assert [(one.account, one.user, one.partition, one.shares) for one in accounts.associations] == [
        ("root", "", "", 1), ("root", "root", "", 1), ("bio", "", "", 20), ("bio", "ann", "", 4),
        ("bio", "ann", "gpu", 2),
        ("proj", "", "", None), ("proj", "ann", "", None), ("proj", "bob", "", 0),
    ]  # fmt: skip
    bio, proj = accounts.accounts["bio"], accounts.accounts["proj"]
    inherited = {"node": 8, "cpu": 256}
    assert bio.limits == Limits(grp_tres={"cpu": 40, "mem": 65_536}, grp_wall_s=3_600, max_jobs=50, max_tres=inherited)
    assert [one.name for one in found(accounts, "bob").upwards()] == ["bob", "proj", "root"]
    ann = found(accounts, "ann")
    assert ann.limits == Limits(max_jobs=3, max_submit=10, max_tres={"node": 8, "cpu": 64})
    assert (ann.qos, ann.default_qos, ann.priority) == (frozenset({"high", "low"}), "low", 0)
    on_gpu = found(accounts, "ann", "bio", "gpu")
    assert on_gpu.limits == Limits(
        grp_jobs=1, grp_submit=9, max_jobs=50, max_tres=inherited, max_tres_mins={"cpu": 99}
    )  # fmt: skip
    in_proj = found(accounts, "ann", "Proj", "gpu")
    assert in_proj.limits == Limits(
        max_jobs=50, max_wall_s=5_400, max_tres=inherited, max_tres_per_node={"cpu": 2}, grp_tres_mins={"cpu": 1_000},
        grp_tres_run_mins={"cpu": 7},
    )  # fmt: skip
    assert (in_proj.qos, in_proj.priority, proj.qos) == (frozenset({"normal"}), 7, frozenset({"normal", "high"}))
    assert accounts.find("eve") is None
    assert accounts.find("bob", "bio") is None
    assert accounts.default_accounts == {"root": "root", "ann": "bio", "bob": "proj"}
    waits = "it holds waiting jobs; running jobs are not killed by it"
    assert set(accounts.unsupported) == {
        Unsupported("grptresmins", "cpu=1000", waits),
        Unsupported("grpwall", "60", waits),
        Unsupported("maxjobsaccrue", "5", "any number of jobs age"),
        Unsupported("maxcpus", "7", "this column is unknown"),
        Unsupported(
            "QOS", "high,low,normal", "without sacctmgr show qos -P they have no priorities, limits and preemption"
        ),
    }
    assert set(accounts.qos) == {"high", "low", "normal"}


def test_a_table_of_one_cluster_in_any_order(tmp_path: Path) -> None:
    path = written(tmp_path, ASSOC)
    accounts = read_accounts(path, cluster="blue")
    assert [(one.account, one.user, one.shares) for one in accounts.associations] == [
        ("root", "", 1), ("root", "root", 1), ("sci", "", None), ("lab", "", 3), ("lab", "ann", 5),
    ]  # fmt: skip
    assert found(accounts, "ann").limits == Limits(max_jobs=2, max_tres={"node": 8})
    with pytest.raises(InputError, match=r"dump.cfg: expected one cluster, found blue, red"):
        read_accounts(path)
    with pytest.raises(InputError, match=r"dump.cfg: expected cluster green, found blue, red"):
        read_accounts(path, cluster="green")


def test_qos_with_all_limits(tmp_path: Path) -> None:
    accounts = read_accounts(written(tmp_path, DUMP), written(tmp_path, QOS, "qos.psv"))
    low, high = accounts.qos["low"], accounts.qos["high"]
    assert (low.priority, low.preempt_mode, low.usage_factor) == (10, "requeue", 0.5)
    assert low.flags == {"nodecay", "denyonlimit"}
    assert low.limits == Limits(
        grp_tres={"cpu": 48}, grp_wall_s=86_400, max_wall_s=7_200, max_tres_per_user={"cpu": 40, "gres/gpu": 2},
        max_jobs_per_user=3, max_submit_per_user=4, max_tres_per_account={"node": 5}, max_jobs_per_account=6,
        max_submit_per_account=7, min_tres={"cpu": 1}, max_tres={"cpu": 8}, max_tres_per_node={"mem": 1_024},
    )  # fmt: skip
    assert (high.priority, high.preempts, high.preempt_mode, high.limits) == (
        100,
        frozenset({"low", "normal"}),
        "",
        Limits(),
    )
    assert Unsupported("gracetime", "00:05:00", "preempted jobs end at once") in accounts.unsupported
    assert Unsupported("usagethres", "0.5", "jobs start with any fair share") in accounts.unsupported
    names = {"gracetime", "usagethres", "maxjobsaccrue", "maxcpus", "grptresmins", "grpwall"}
    assert {one.name for one in accounts.unsupported} == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DUMP.replace("Parent - 'bio'", "Parent - 'boi'"), "line 8: unknown account boi"),
        (DUMP.replace("MaxJobs=3", "MaxJobs=three"), "line 8: maxjobs=three: expected a whole number"),
        (DUMP.replace("GrpWall=60", "GrpWall=x"), "line 5: grpwall=x: expected a time such as"),
        (
            DUMP.replace("Account - 'proj'", "Konto - 'proj'"),
            "line 6: expected QOS, Cluster, Parent, Account, or User - 'name':",
        ),
        ("User - 'ann':Fairshare=1\n", "line 1: unknown account (none)"),
        ("a|b|c\n", "dump.cfg: expected the account root"),
        (
            ASSOC.replace("|ParentName", "|Other"),
            "unknown account (none); expected a file of `sacctmgr dump`, or the columns ParentName and Account",
        ),
        ("Account|User|\nroot\n", "line 2: expected 3 columns, found 1"),
        ("", "expected the account root"),
    ],
)
def test_errors_name_the_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_accounts(written(tmp_path, text), cluster="blue" if text.startswith(("#", "Clu")) else "")
    assert message in str(error.value)


def test_errors_of_qos_and_clusters(tmp_path: Path) -> None:
    dump = written(tmp_path, DUMP)
    with pytest.raises(InputError, match="line 2: expected cluster red, found blue"):
        read_accounts(dump, cluster="red")
    with pytest.raises(InputError, match=r"dump.cfg: unknown QOS high; expected one of those in .*qos.psv"):
        read_accounts(dump, written(tmp_path, "Name|Priority\nnormal|1\nlow|2\n", "qos.psv"))
    with pytest.raises(InputError, match=r"qos.psv: QOS low: unknown QOS hihg in Preempt"):
        read_accounts(dump, written(tmp_path, "Name|Priority|Preempt\nlow|2|hihg\n", "qos.psv"))
    with pytest.raises(InputError, match=r"qos.psv: line 2: expected a column Name"):
        read_accounts(dump, written(tmp_path, "QOS|Priority\nlow|2\n", "qos.psv"))
    with pytest.raises(InputError, match="No such file"):
        read_accounts(tmp_path / "missing")


def test_a_dump_of_slurm_25_has_the_qos_and_limits_of_types_of_gpus(tmp_path: Path) -> None:
    text = """QOS - 'normal':Description='QOS: a=b':GraceTime=0:Priority=0:UsageFactor=1.000000
QOS - 'high':Flags='DenyOnLimit':Preempt='normal':PreemptMode='REQUEUE':Priority=9:MaxJobsPU=3:MaxTRESPU=gres/gpu:A=2
Cluster - 'blue':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'bio':Description='o'brien: x':GrpTRES=cpu=4,gres/gpu:a100=4,gres/gpu:v100=2:GrpJobs=7:QOS+=high
Parent - 'bio'
User - 'ann':DefaultAccount='bio':Coordinator='bio':Fairshare=4
"""
    accounts = read_accounts(written(tmp_path, text), cluster="blue")
    assert accounts.knows_qos
    assert accounts.unsupported == ()
    high = accounts.qos["high"]
    assert (high.priority, high.preempts, high.preempt_mode) == (9, frozenset({"normal"}), "requeue")
    assert high.limits == Limits(max_jobs_per_user=3, max_tres_per_user={"gres/gpu:a": 2})
    bio = accounts.accounts["bio"]
    assert bio.limits == Limits(grp_tres={"cpu": 4, "gres/gpu:a100": 4, "gres/gpu:v100": 2}, grp_jobs=7)
    assert found(accounts, "ann").qos == {"normal", "high"}
    other = read_accounts(written(tmp_path, text), written(tmp_path, QOS, "qos.psv"), "blue")
    assert other.qos["high"].priority == 100
    assert not read_accounts(written(tmp_path, DUMP)).knows_qos
    with pytest.raises(InputError, match="dump.cfg: QOS high: unknown QOS low in Preempt"):
        read_accounts(written(tmp_path, text.replace("Preempt='normal'", "Preempt='low'")))


def test_a_description_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "dump.cfg"
    path.write_bytes(DUMP.replace("All: x", "Physik für alle").encode("latin-1"))
    assert read_accounts(path).accounts["bio"].shares == 20


def test_unknown_columns_with_values_are_listed_once(tmp_path: Path) -> None:
    text = "Cluster|Account|User|Org|MaxJosb|Colour|\nc|root|||||\nc|root|ann|lab|3||\nc|root|ben||4||\n"
    accounts = read_accounts(written(tmp_path, text))
    assert accounts.unsupported == (Unsupported("maxjosb", "3", "this column is unknown"),)


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN/slurm")
def test_recorded_dumps_and_tables_are_the_same() -> None:
    for run in RECORDED:
        table, dump = read_accounts(run / "assoc.psv", run / "qos.psv"), read_accounts(run / "sacctmgr_dump.cfg")
        rows = [
            [(one.account, one.user, one.shares, one.qos, one.default_qos, one.limits) for one in accounts.associations]
            for accounts in (table, dump)
        ]
        assert rows[0] == rows[1]
        assert len(rows[0]) == 18
        assert table.default_accounts == dump.default_accounts
        assert table.unsupported == ()
    assert table.qos["high"].preempts == {"low"}
    assert table.qos["high"].limits == Limits(max_jobs_per_user=3)
    assert isinstance(table.qos["low"], Qos)


def test_examples_of_docstrings() -> None:
    assert doctest.testmod(accounts_module).failed == 0
