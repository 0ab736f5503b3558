"""Slurm's way to schedule: main pass, backfill, priorities, limits and preemption, read from slurm.conf.

`accounts` reads accounts, QOS and limits. `jobs` describes a waiting or running job as slurmctld sees it. `priority`
and `usage` compute priorities and fair share. `main_pass` and `backfill` decide what starts, and `policy` runs both.
"""
