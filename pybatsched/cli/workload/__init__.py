"""The command `workload`: one file a sub-command."""

from pybatsched.cli.workload.command import EPILOG, add_arguments, run

__all__ = ["EPILOG", "add_arguments", "run"]
