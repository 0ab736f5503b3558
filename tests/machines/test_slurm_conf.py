"""slurm.conf: a realistic file with all features, all kinds of values, and errors with file and line."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import pytest

from pybatsched.core.node_lists import nodes_in
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.machines.slurm_conf import (
    NodeSpec,
    Scheduling,
    SlurmConf,
    Unsupported,
    read_slurm_conf,
    reader as conf_module,
    seconds,
    tres_limits,
    tres_weights,
    values,
    whole_minutes,
)

MAIN = """
# A cluster with everything that this project reads.
ClusterName=blue   # the name
SlurmctldHost=ctl1(10.0.0.1)
SlurmctldHost=ctl2
SlurmctldPort=6817 SlurmdPort=6818
ControlMachine="ctl 1"
AuthType=auth/munge
EPILOG=/etc/slurm/epilog.sh
KillWait=45
MessageTimeout=20
JobRequeue=0
TopologyPlugin=topology/tree
JobSubmitPlugins=lua
MCSPlugin=mcs/none
AccountingStorageEnforce=safe,qos
EnforcePartLimits=YES
DefMemPerNode=1000

schedulertype=sched/backfill
SchedulerParameters=bf_continue,bf_interval=45,bf_window=2880,\\
bf_resolution=120,bf_max_job_test=1000,bf_max_job_user=20,bf_busy_nodes,defer,max_rpc_cnt=150,\\
batch_sched_delay=10,sched_interval=90,default_queue_depth=200,partition_job_depth=50,\\
sched_max_job_start=7,bf_max_job_part=30,bf_max_job_start=40,bf_min_age_reserve=600,bf_max_job_array_resv=5
SelectType=select/cons_res
SelectTypeParameters=CR_CPU_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE

PriorityType=priority/multifactor
PriorityDecayHalfLife=14-0
PriorityCalcPeriod=10
PriorityMaxAge=7-12
PriorityFavorSmall=NO
PriorityFlags=depth_oblivious,NO_NORMAL_ALL
PriorityUsageResetPeriod=Monthly
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=500
PriorityWeightPartition=2000
PriorityWeightQOS=3000
PriorityWeightAssoc=4
PriorityWeightTRES=CPU=1000,Mem=2000,GRES/gpu=3000
FairShareDampeningFactor=5
Include nodes.conf
include parts.conf
"""

NODES = """
NodeName=DEFAULT Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=128000 State=UNKNOWN
NodeName=n[9-10,2] Weight=10 Feature=rome,ib
NodeName=DEFAULT Features=milan
NodeName=a[01-02]b[1-2] Procs=8 Sockets=1 CoresPerSocket=8 RealMemory=64000 MemSpecLimit=4000 \\
    CoreSpecCount=1 NodeAddr=10.0.1.[1-4]
NodeName=g[1-2] Gres=gpu:4,craynetwork:2 Boards=1 SocketsPerBoard=2 Port=[100-101] \\
    ThreadsPerCore=2
NodeName=h1 Gres=gpu:a100:2(S:0),gpu:v100:1 State=DRAIN
NodeName=f[1-3] State=FUTURE
DownNodes=n9 State=DOWN Reason="broken fan"
NodeSet=fast Feature=rome
NodeSet=some Nodes=h1
"""

PARTS = """
PartitionName=DEFAULT MaxTime=2-0 OverSubscribe=NO State=UP PriorityTier=2
PartitionName=batch Nodes=ALL Default=YES DefaultTime=30 PriorityJobFactor=5
PartitionName=gpu Nodes=g[1-2],some MaxTime=24:00:00 MaxNodes=2 MinNodes=1 QOS=gpuqos PreemptMode=off \\
  TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=8.0" AllowAccounts=Bio,chem DenyQos=low DefMemPerCPU=2000
PartitionName=old Nodes=fast,f1 Shared=EXCLUSIVE Priority=7 PriorityTier=3 DefaultTime=60 MaxTime=UNLIMITED \\
  State=DOWN DefMemPerNode=10
PartitionName=share Nodes="n2 n9" DefaultTime=3-0 OverSubscribe=FORCE:4 LLN=YES State=DRAIN \\
  MaxNodes=UNLIMITED GraceTime=0
"""

GRES = """
AutoDetect=off
NodeName=g[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-2]
NodeName=g[1-2] Name=gpu Type=v100 File=/dev/nvidia3 Cores=0-7
Name=mps Count=100
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    for name, text in (("nodes.conf", NODES), ("parts.conf", PARTS), ("gres.conf", GRES)):
        (tmp_path / name).write_text(text)
    (tmp_path / "slurm.conf").write_text(MAIN)
    return tmp_path / "slurm.conf"


def small(folder: Path, text: str = "", nodes: str = "NodeName=n[1-2] CPUs=4", parts: str = "Nodes=ALL") -> SlurmConf:
    """Read a short file; its first line is empty."""
    (folder / "slurm.conf").write_text(f"\n{text}\n{nodes}\nPartitionName=batch {parts}\n")
    return read_slurm_conf(folder / "slurm.conf")


def test_nodes_are_in_the_order_of_their_names_with_what_jobs_can_use(cluster: Path) -> None:
    nodes = read_slurm_conf(cluster).nodes
    milan, rome = frozenset({"milan"}), frozenset({"rome", "ib"})
    blade = [NodeSpec(f"a0{i}b{j}", 7, 60_000, {}, 1, milan) for i in (1, 2) for j in (1, 2)]
    gpus = [NodeSpec(f"g{i}", 64, 128_000, {"a100": 3, "v100": 1}, 1, milan, 2) for i in (1, 2)]
    assert nodes == (
        *blade,
        *gpus,
        NodeSpec("h1", 32, 128_000, {"a100": 2, "v100": 1}, 1, milan, is_up=False),
        NodeSpec("n2", 32, 128_000, {}, 10, rome),
        NodeSpec("n9", 32, 128_000, {}, 10, rome, is_up=False),
        NodeSpec("n10", 32, 128_000, {}, 10, rome),
    )


def test_partitions_with_defaults_lists_sets_and_times(cluster: Path) -> None:
    conf = read_slurm_conf(cluster)
    batch, gpu, old, share = conf.partitions.values()
    assert (batch.name, batch.nodes, batch.is_default) == ("batch", tuple(range(10)), True)
    assert conf.default_partition is batch
    assert (batch.tier, batch.job_factor, batch.max_time_s, batch.default_time_s) == (2, 5, 172_800, 1_800)
    assert (batch.billing_weights, batch.allow_accounts, batch.is_exclusive) == (None, None, False)
    assert (gpu.nodes, gpu.max_time_s, gpu.min_nodes, gpu.max_nodes, gpu.qos) == ((4, 5, 6), 86_400, 1, 2, "gpuqos")
    assert gpu.billing_weights == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 8.0}
    assert (gpu.preempt_mode, gpu.allow_accounts, gpu.deny_qos) == (
        "off",
        frozenset({"bio", "chem"}),
        frozenset({"low"}),
    )
    assert (gpu.def_mem_per_cpu, gpu.def_mem_per_node, gpu.default_time_s) == (2_000, 0, None)
    assert (batch.def_mem_per_cpu, batch.def_mem_per_node) == (0, 1_000)  # of the cluster
    # Priority replaces PriorityTier and PriorityJobFactor.
    assert (old.nodes, old.is_exclusive, old.tier, old.job_factor, old.max_time_s) == ((7, 8, 9), True, 7, 7, math.inf)
    assert (old.is_up, old.def_mem_per_node, old.default_time_s) == (False, 10, 3_600)
    assert (share.nodes, share.is_exclusive, share.is_up, share.max_nodes) == ((7, 8), False, True, 0)
    assert share.default_time_s is None  # it is more than MaxTime


def test_parameters_of_the_scheduler(cluster: Path) -> None:
    conf = read_slurm_conf(cluster)
    assert conf.scheduling == Scheduling(
        True, 90, 10, 200, 50, 7, 45, 172_800, 120, 1_000, 20, 30, 40, 600, 5
    )  # fmt: skip
    assert (conf.cluster, conf.select, conf.select_parameters) == ("blue", "cons_tres", frozenset({"CR_CPU_MEMORY"}))
    assert conf.counts_memory
    assert conf.enforce == {"associations", "limits", "qos", "safe"}
    assert (conf.preempt_type, conf.preempt_mode) == ("partition_prio", frozenset({"requeue"}))
    assert (conf.kill_wait_s, conf.message_timeout_s, conf.has_epilog, conf.requeues) == (45, 20, True, False)
    assert conf.enforce_part_limits == "ALL"
    assert conf.n_cpus == 4 * 7 + 2 * 64 + 4 * 32


def test_parameters_of_priorities(cluster: Path) -> None:
    found = read_slurm_conf(cluster).priorities
    assert (found.type, found.half_life_s, found.calc_period_s, found.max_age_s) == (
        "multifactor",
        14 * 86_400,
        600,
        648_000,
    )
    assert (found.age, found.fairshare, found.jobsize, found.partition) == (1_000, 10_000, 500, 2_000)
    assert (found.qos, found.assoc, found.dampening, found.favor_small) == (3_000, 4, 5, False)
    assert found.tres == {"cpu": 1_000, "mem": 2_000, "gres/gpu": 3_000}
    assert found.usage_reset == "monthly"
    assert not found.is_fair_tree
    assert found.flags == {
        "DEPTH_OBLIVIOUS", "NO_FAIR_TREE", "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS",
        "NO_NORMAL_TRES",
    }  # fmt: skip


def test_what_is_not_simulated_is_listed_by_name_and_effect(cluster: Path) -> None:
    assert set(read_slurm_conf(cluster).unsupported) == {
        Unsupported("State", "FUTURE", "future nodes do not exist"),
        Unsupported("Gres", "craynetwork", "requests for it are ignored"),
        Unsupported("OverSubscribe", "FORCE:4", "jobs do not share CPUs"),
        Unsupported("LLN", "YES", "the least loaded nodes are not preferred"),
        Unsupported("State", "DRAIN", "partition share accepts jobs"),
        Unsupported("bf_busy_nodes", "", "planned jobs do not prefer busy nodes"),
        Unsupported("TopologyPlugin", "topology/tree", "switches are ignored"),
        Unsupported("JobSubmitPlugins", "lua", "jobs are taken as they are in the log"),
    }


def test_defaults_are_those_of_slurm(tmp_path: Path) -> None:
    conf = small(tmp_path)
    assert conf.scheduling == Scheduling()
    assert (conf.select, conf.select_parameters, conf.counts_memory) == ("linear", frozenset(), False)
    assert (conf.priorities.type, conf.priorities.half_life_s, conf.priorities.max_age_s) == ("basic", 604_800, 604_800)
    assert (conf.enforce, conf.preempt_type, conf.has_epilog, conf.requeues) == (frozenset(), "", False, True)
    assert conf.nodes == (NodeSpec("n1", 4), NodeSpec("n2", 4))
    assert conf.default_partition is None
    [select] = conf.unsupported  # other defaults since 23.11
    assert (select.name, select.value) == ("SelectType", "cons_tres")
    assert select in small(tmp_path, "PriorityWeightAge=1").unsupported
    assert "PriorityType" in {one.name for one in small(tmp_path, "PriorityWeightAge=1").unsupported}
    assert (
        small(tmp_path, "SelectType=select/linear\nPriorityType=priority/basic\nPriorityWeightAge=1").unsupported == ()
    )
    assert small(tmp_path, "SelectType=select/cons_tres").select_parameters == {"CR_CORE_MEMORY"}
    assert small(tmp_path, "SelectType=select/cray_aries").select == "linear"
    assert small(tmp_path, "PriorityDecayHalfLife=0").priorities.half_life_s == math.inf
    assert small(tmp_path, "AccountingStorageEnforce=all").enforce == {"associations", "limits", "qos", "safe"}
    assert small(tmp_path, "AccountingStorageEnforce=2").enforce == {"associations", "limits"}
    assert not small(tmp_path, "SchedulerType=sched/builtin").scheduling.has_backfill
    assert not small(tmp_path, "SchedulerType=sched/hold").scheduling.has_backfill
    assert not small(tmp_path, "SchedulerParameters=bf_interval=-1").scheduling.has_backfill
    assert small(tmp_path, "SchedulerParameters=sched_interval=-1").scheduling.sched_interval_s == math.inf


def test_threads_of_a_core_are_counted_unless_a_cpu_is_a_core(tmp_path: Path) -> None:
    shape = "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
    cores = small(tmp_path, "SelectType=select/cons_tres", f"NodeName=n1 CPUs=8 {shape}")
    threads = small(tmp_path, "SelectType=select/cons_tres", f"NodeName=n1 {shape}")
    assert [(node.n_cpus, node.threads_per_core) for node in (*cores.nodes, *threads.nodes)] == [(8, 1), (16, 2)]
    assert cores.unsupported == ()
    assert threads.unsupported == (Unsupported("ThreadsPerCore", "2", "jobs get CPUs, not whole cores"),)


def test_changes_replace_parameters_and_options_of_scheduler_parameters(cluster: Path) -> None:
    changes = {"priorityweightfairshare": "5000", "bf_interval": "60", "bf_busy_nodes": "no", "bf_continue": "no"}
    conf = read_slurm_conf(cluster, changes)
    assert (conf.priorities.fairshare, conf.scheduling.bf_interval_s) == (5_000, 60)
    assert "bf_busy_nodes" not in {one.name for one in conf.unsupported}
    options = read_slurm_conf(cluster, {"SchedulerParameters": "defer,bf_one_resv_per_job"}).scheduling
    assert options == Scheduling(bf_one_resv_per_job=True)
    with pytest.raises(InputError, match=r"unknown parameter PriorityWeightAges; did you mean PriorityWeightAge\?"):
        read_slurm_conf(cluster, {"PriorityWeightAges": "1"})
    with pytest.raises(InputError, match=r"slurm.conf with a change: KillWait=long: expected a whole number"):
        read_slurm_conf(cluster, {"KillWait": "long"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PriorityWeigthAge=1", "line 2: unknown parameter PriorityWeigthAge; did you mean PriorityWeightAge?"),
        ("NodeName=x CPU=4", "line 2: unknown parameter CPU of NodeName; did you mean CPUs?"),
        ("PartitionName=x Node=n1", "line 2: unknown parameter Node of PartitionName; did you mean Nodes?"),
        ("PartitionName=x Nodes=n[1-3]", "line 2: unknown node n3"),
        ("NodeName=x[1-", "line 2: expected closed brackets, found 'x[1-'"),
        ("NodeName=x[b-c]", "line 2: expected numbers such as 1-16 in brackets, found 'b-c'"),
        ("NodeName=n1", "line 3: node n1 is defined twice"),
        ("NodeName=x CPUs=many", "line 2: CPUs=many: expected a whole number"),
        ("PartitionName=x Default=perhaps", "line 2: Default=perhaps: expected YES or NO"),
        (
            "PartitionName=x MaxTime=soon",
            "line 2: MaxTime=soon: expected a time such as 30, 12:00:00, 7-0 or UNLIMITED, found 'soon'",
        ),
        ("PartitionName=x OverSubscribe=often", "line 2: OverSubscribe=often: expected NO, YES, FORCE, or EXCLUSIVE"),
        (
            "SchedulerParameters=bf_contine",
            "line 2: unknown option bf_contine of SchedulerParameters; did you mean bf_continue?",
        ),
        ("SchedulerParameters=bf_interval=0s", "line 2: bf_interval=0s: expected a whole number, -1 to 10,800"),
        ("SchedulerParameters=bf_window=0", "line 2: bf_window=0: expected a whole number, 1 to 43,200"),
        ("SchedulerParameters=sched_interval=x", "line 2: sched_interval=x: expected a whole number, -1 or more"),
        ("PriorityType=priority/multi", "line 2: PriorityType=priority/multi: expected one of basic, multifactor"),
        (
            "PriorityFlags=FAIR_TREES",
            "line 2: PriorityFlags=FAIR_TREES: expected known names, found FAIR_TREES; did you mean FAIR_TREE?",
        ),
        (
            "PreemptMode=KILL",
            (
                "line 2: PreemptMode=KILL: expected known names, found KILL; known are CANCEL, CLUSTER, GANG, OFF, ON, "
                "PRIORITY, REQUEUE, SUSPEND, WITHIN"
            ),
        ),
        ("PriorityCalcPeriod=0", "line 2: PriorityCalcPeriod=0: expected 1 minute or more"),
        (
            "PriorityWeightTRES=CPU",
            "line 2: PriorityWeightTRES=CPU: expected a list such as cpu=4,mem=64G,gres/gpu=2, found 'CPU'",
        ),
        ("EnforcePartLimits=SOME", "line 2: EnforcePartLimits=SOME: expected NO, ANY, or ALL"),
        (
            "SelectType=select/best",
            "line 2: SelectType=select/best: expected one of linear, cons_res, cons_tres, cray_aries",
        ),
        ("what is this", "line 2: expected Name=value, found 'what is this'"),
        (
            "Include /etc/slurm-no/x.conf",
            "line 2: the included file /etc/slurm-no/x.conf does not exist; expected it, or a copy of it in HERE",
        ),
        ("SchedulerParameters==defer", "line 2: unknown option =defer of SchedulerParameters"),
        ("Include slurm.conf", "slurm.conf: expected at most 16 files that include each other"),
    ],
)  # fmt: skip
def test_errors_name_the_file_the_line_and_what_was_expected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        small(tmp_path, text)
    message = message.replace("HERE", str(tmp_path))
    assert str(error.value) == f"{tmp_path}/{message if 'conf: ' in message else 'slurm.conf: ' + message}"


def test_a_file_without_nodes_or_partitions_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text("ClusterName=x\n")
    with pytest.raises(InputError, match="expected a line NodeName="):
        read_slurm_conf(path)
    path.write_text("NodeName=n1\n")
    with pytest.raises(InputError, match="expected a line PartitionName="):
        read_slurm_conf(path)


def test_errors_of_gres_and_included_files_name_them(cluster: Path) -> None:
    gres = cluster.with_name("gres.conf")
    gres.write_text("NodeName=g1 Name=gpu Typ=a100\n")
    with pytest.raises(InputError, match=r"gres.conf: line 1: unknown parameter Typ of gres.conf; did"):
        read_slurm_conf(cluster)
    gres.unlink()
    assert read_slurm_conf(cluster).nodes[4].gpus == {"": 4}
    cluster.with_name("parts.conf").write_text("PartitionName=a Nodes=ALL \\\n\n\nPartitionName=b Nodes=ALL Tier=1\n")
    with pytest.raises(InputError, match=r"parts.conf: line 4: unknown parameter Tier of PartitionName"):
        read_slurm_conf(cluster)


def test_escaped_comment_characters_and_quotes(tmp_path: Path) -> None:
    conf = small(tmp_path, 'ClusterName="C\\#1" # ClusterName=other\nSlurmctldParameters="cloud_dns","a=1"')
    assert conf.cluster == "c#1"


def test_lines_in_any_encoding_and_a_last_line_that_would_go_on(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_bytes(
        b'ClusterName=caf\xe9\r\nNodeName=n1 RealMemory=2k \\ \r\n Feature="\xe9" Weight=3\nPartitionName=a Nodes=n1 \\'
    )
    [node] = (conf := read_slurm_conf(path)).nodes
    assert (node.memory_mb, node.weight, list(conf.partitions)) == (2_048, 3, ["a"])
    assert names.find(str(path)).read().n_procs == 1


def test_a_copy_beside_the_file_stands_for_an_included_file_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "parts.conf").write_text("PartitionName=b Nodes=n1\n")
    conf = small(tmp_path, "Include /etc/slurm-here/parts.conf", parts="Nodes=n2")
    assert list(conf.partitions) == ["b", "batch"]


def test_names_of_older_and_newer_versions_of_slurm_are_known(tmp_path: Path) -> None:
    small(
        tmp_path, "CacheGroups=0\nMemLimitEnforce=no\nDefaultStoragePort=1\nPrologTimeout=9\nCertgenType=certgen/script"
    )
    small(tmp_path, "SchedulerParameters=max_rpc_count=9,requeue_on_resume_failure", parts="Nodes=ALL Topology=t")


def test_the_last_default_partition_is_that_of_jobs_that_name_none(tmp_path: Path) -> None:
    conf = small(tmp_path, "PartitionName=first Nodes=n1 Default=YES", parts="Nodes=n2 Default=YES")
    assert conf.default_partition == conf.partitions["batch"]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("CPUs=40 CoresPerSocket=10 ThreadsPerCore=2", (40, 2)),  # two sockets
        ("CPUs=40 Sockets=1 CoresPerSocket=10 ThreadsPerCore=2", (20, 2)),  # none of 1, 10, 20
        ("CPUs=10 Sockets=1 CoresPerSocket=10 ThreadsPerCore=2", (10, 1)),
        ("Sockets=9 Boards=2 SocketsPerBoard=2 CoresPerSocket=4", (16, 1)),
        ("CPUs=7", (7, 1)),
        ("CoresPerSocket=4 ThreadsPerCore=2", (8, 2)),
    ],
)
def test_cpus_are_those_of_slurm_if_they_do_not_match_the_sockets(
    tmp_path: Path, shape: str, expected: tuple[int, int]
) -> None:
    [node] = small(tmp_path, nodes=f"NodeName=n1 RealMemory=9 MemSpecLimit=9 {shape}").nodes
    assert (node.n_cpus, node.threads_per_core, node.memory_mb) == (*expected, 9)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,20]", ["n1", "n2", "n3", "n20"]),
        ("a[01-02]b[1-2]x", ["a01b1x", "a01b2x", "a02b1x", "a02b2x"]),
        ("n[008-010],m", ["n008", "n009", "n010", "m"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert nodes_in(text) == names


@pytest.mark.parametrize(
    "text", ["n[1-", "n]1[", "n[3-1]", "n[1-9999999]", "n[x]", "n[1-1000]m[1-1000]k[1-1000]", "a b"]
)
def test_broken_lists_of_nodes(text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        nodes_in(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 1_800), ("30:15", 1_815), ("1:30:15", 5_415), ("2-0", 172_800), ("1-2:30", 95_400),
        ("1-2:30:15", 95_415),
        ("UNLIMITED", math.inf), ("infinite", math.inf), ("-1", math.inf), ("0", 0),
    ],
)  # fmt: skip
def test_times(text: str, expected: float) -> None:
    assert seconds(text) == expected
    assert whole_minutes(text) == (expected if expected == math.inf else math.ceil(expected / 60) * 60)


def test_resources_and_their_weights() -> None:
    assert tres_limits("cpu=40,mem=1.5T,gres/gpu:a100=2,node=-1,energy=2K") == {
        "cpu": 40, "mem": 1.5 * 1024**2, "gres/gpu:a100": 2, "energy": 2048,
    }  # fmt: skip
    assert tres_weights("CPU=1,Mem=1024G,node=-2") == {"cpu": 1, "mem": 1, "node": -2}
    with pytest.raises(ValueError, match="a number such as"):
        tres_limits("cpu=many")
    with pytest.raises(ValueError, match="a weight such as"):
        tres_weights("cpu=many")


@pytest.mark.parametrize("module", [conf_module, values])
def test_examples_of_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "memory", "expected"),
    [
        ("cons_tres\nSelectTypeParameters=CR_Core_Memory", "RealMemory=2048", "2"),
        ("cons_tres\nSelectTypeParameters=CR_Core_Memory", "", None),
        ("cons_tres\nSelectTypeParameters=CR_Core", "RealMemory=2048", None),
        ("linear", "", None),
    ],
)
def test_the_machine_has_memory_if_jobs_share_it_and_its_file_any_name(
    tmp_path: Path, select: str, memory: str, expected: str | None
) -> None:
    file = tmp_path / "slurm.conf.new"
    file.write_text(f"# ours\nSelectType=select/{select}\nNodeName=n[1-2] CPUs=2 {memory}\nPartitionName=p Nodes=ALL\n")
    platform = names.find(str(file)).read()
    assert platform.n_procs == 4
    assert {host.properties.get("memory_gb") for host in platform.hosts} == {expected}
