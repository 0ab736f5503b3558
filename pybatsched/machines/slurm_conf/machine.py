"""The machine of a cluster's slurm.conf: a host for each core, with the node, memory, GPUs and features."""

from __future__ import annotations

from pybatsched.machines.model import HostUnit, LinkSpeeds, Machine, NodeClass
from pybatsched.machines.slurm_conf.reader import NodeSpec, SlurmConf

_GB: int = 1024  # MB, as in Slurm


def machine_of_slurm(conf: SlurmConf) -> Machine:
    """Return the machine of a configuration, whose hosts are cores. O(nodes).

    Its nodes have memory if jobs share it by what they ask for (`SelectTypeParameters`), and `RealMemory` is known.
    """
    return Machine(
        "nodes",
        f"Cluster {conf.cluster or 'without a name'}, from slurm.conf",
        tuple(_class_of(number, node, conf.counts_memory) for number, node in enumerate(conf.nodes)),
        (HostUnit("core", n_nodes=0, group=("node", 0)),),
        LinkSpeeds(1.25e9, 1e-5, ("10 Gbit/s and 10 us: assumption",)),
        remarks=("The property node is the name of the node in slurm.conf",),
    )


def _class_of(number: int, node: NodeSpec, counts_memory: bool) -> NodeClass:
    gpus = ",".join(f"{kind}:{n}" if kind else str(n) for kind, n in node.gpus.items())
    properties = {"node": node.name, "gpus": gpus, "features": ",".join(sorted(node.features))}
    properties["weight"] = str(node.weight) if node.weight != 1 else ""
    return NodeClass(
        f"node{number}",
        1,
        node.n_cpus,
        1e9,
        node.memory_mb / _GB if counts_memory and node.memory_mb > 1 else None,
        ("slurm.conf; 1 Gflop/s a core: assumption",),
        {key: value for key, value in properties.items() if value},
        cluster="nodes",
    )
