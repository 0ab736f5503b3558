"""Check, convert, cut, merge, generate and describe workloads."""

from pybatsched.cli.workload.command import EPILOG, add_arguments, run

__all__ = ["EPILOG", "add_arguments", "run"]
