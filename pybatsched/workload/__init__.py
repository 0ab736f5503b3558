"""Workloads: read, check, prepare, generate and describe them."""

from pybatsched.workload.model import Workload
from pybatsched.workload.reading import load

__all__ = ["Workload", "load"]
