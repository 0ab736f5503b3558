"""A cluster's slurm.conf and gres.conf: its nodes, its partitions, and the parameters of its scheduler."""

from pybatsched.machines.slurm_conf.machine import machine_of_slurm as machine_of_slurm
from pybatsched.machines.slurm_conf.reader import (
    NodeSpec as NodeSpec,
    Partition as Partition,
    Priorities as Priorities,
    Scheduling as Scheduling,
    SlurmConf as SlurmConf,
    Unsupported as Unsupported,
    preempt_mode_of as preempt_mode_of,
    read_slurm_conf as read_slurm_conf,
)
from pybatsched.machines.slurm_conf.values import (
    seconds as seconds,
    tres_limits as tres_limits,
    tres_weights as tres_weights,
    whole_minutes as whole_minutes,
)
