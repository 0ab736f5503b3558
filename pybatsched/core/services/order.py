"""Which services a run has, and in which order their steps are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybatsched.core.host_nodes import has_nodes, nodes_of
from pybatsched.core.node_partitions import OPTION as PARTITIONS, specs_of as partitions_of
from pybatsched.core.node_requests import REQUEST_FIELDS
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.core.services.eligibility import Eligibility
from pybatsched.core.services.failures import REQUEUING, Failures, Outages, WorkAccount, repair_s_of, rule_of
from pybatsched.core.services.feedback import Feedback, Registration
from pybatsched.core.services.host_reservations import HostReservations, specs_of
from pybatsched.core.services.node_partitions import NodePartitions, with_partitions
from pybatsched.core.services.node_requests import NodeRequests
from pybatsched.core.services.predictions import PredictedEstimates
from pybatsched.core.services.running_at_start import RunningAtStart
from pybatsched.core.services.service import Service, Services
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.cluster import Cluster


def needs_of(policy: Policy) -> frozenset[BatsimFeature]:
    """Return the features of Batsim that a policy needs with its options."""
    requeues = rule_of(policy.options) in REQUEUING
    requeues |= any(spec.conflict == "requeue" for spec in specs_of(policy.options))
    return policy.needs | {BatsimFeature.DYNAMIC_JOBS} if requeues else policy.needs


def check_partitions(policy: Policy, name: str, cluster: Cluster) -> None:
    """Raise InputError if the policy cannot obey its partitions of nodes, or if the machine has other nodes. O(1)."""
    specs = partitions_of(policy.options)
    if specs and not policy.plans_nodes:
        expected = "expected fcfs, easy, conservative or another policy that does (plans_nodes)"
        raise InputError(f"option {PARTITIONS}: policy {name} does not plan nodes; {expected}")
    if specs:
        with_partitions(nodes_of(cluster), specs)


def services_of(
    policy: Policy, actions: Actions, outages: Outages, feedback: Feedback | None, eligibility: Eligibility
) -> Services:
    """Return the services that a policy needs with its options, for the rest of a run.

    `outages`, `feedback` and `eligibility` belong to the run; all others begin with the policy. Within a step they are
    called in this order: a job that follows others is submitted before a reservation begins, no other service gets a
    job before it may start, the policy gets killed jobs before jobs start in reservations, and the registration ends
    last.
    """
    services: list[Service] = [outages]
    if feedback is not None:
        services.append(feedback)
    partitions = partitions_of(policy.options)
    if partitions:
        services.append(NodePartitions(actions, partitions))
    elif has_nodes(actions.cluster):
        is_own = not REQUEST_FIELDS.isdisjoint(actions.field_check.names)
        services.append(NodeRequests(actions, is_planned=policy.plans_nodes, is_own=is_own))
    services += [eligibility, RunningAtStart(actions)]
    if policy.predictions is not None and not policy.drives_predictions:
        services.append(PredictedEstimates(policy.predictions, actions))
    rule, repair_s, specs = rule_of(policy.options), repair_s_of(policy.options), specs_of(policy.options)
    if rule is not None or repair_s is not None or specs:
        failures = Failures(rule, actions, repair_s)
        services += [failures, WorkAccount(actions.requeues, counts_failures=rule is not None)]
        if specs:
            services.append(HostReservations(specs, actions, failures, takes_any_procs=policy.takes_any_procs))
    if actions.requeues.dynamic_jobs:
        never = BatsimFeature.DYNAMIC_JOBS not in needs_of(policy)
        services.append(Registration(actions, feedback, never=never, by_policy=policy.manages_registration))
    return Services(services)
