"""Experiments in Python: read a workload, simulate policies on it, and compare the runs. See docs/python.md."""
