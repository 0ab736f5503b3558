"""Fields of the jobs in workloads, checked by the models of those who read them: policies, and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pybatsched.core.fields import NOTHING, FieldCheck, FieldModel
from pybatsched.errors import InputError
from pybatsched.workload.checks import Place, shown
from pybatsched.workload.model import Workload


def check(
    workloads: Iterable[Workload],
    models: Mapping[str, type[FieldModel]],
    context: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Raise InputError that names file, job and field for the first that one of its readers refuses. O(jobs * models).

    `models` are by the names of those who read. All workloads are checked as those of one run, of which `context` is
    what is known already.
    """
    loaded = list(workloads)
    for reader, model in models.items():
        faults_of = FieldCheck(model, reader, context).faults
        for workload in loaded:
            for job in workload.jobs:
                for fault in faults_of(job):
                    place = Place(workload.source, f"job {shown(job['id'])}")
                    if not fault.field:
                        raise InputError(f"{place}: {fault.wrong}")
                    found = "nothing" if fault.found is NOTHING else shown(fault.found)
                    raise InputError(f"{place}, {fault.what}, found {found}")
