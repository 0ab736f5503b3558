"""Slurm's way to schedule: main pass, backfill, priorities, limits and preemption, read from slurm.conf.

`conf` and `accounts` read a cluster's own files. `jobs` describes a waiting or running job as slurmctld sees it.
`priority` and `usage` compute priorities, `passes` decides what starts, and `policy` gives both their clocks.
"""
