"""Limits of QOS and associations: how much may run at a time, for each user, account and group.

A limit of a QOS replaces the association's limit of the same kind. What runs counts for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybatsched_schedulers.slurm.accounts import Accounts, Association
    from pybatsched_schedulers.slurm.jobs import Record

#: The words that Slurm uses for TRES in the names of reasons.
_WORDS = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "billing": "Billing", "gres/gpu": "GRES", "energy": "Energy"}


class _Use:
    """What runs at present: jobs, and what they use."""

    __slots__ = ("n_jobs", "tres")

    def __init__(self) -> None:
        self.n_jobs = 0
        self.tres: Counter[str] = Counter()

    def change(self, tres: Mapping[str, float], sign: int) -> None:
        self.n_jobs += sign
        for name, amount in tres.items():
            self.tres[name] += sign * amount  # type: ignore[assignment]


class RunningUse:
    """What runs for each QOS and association, and whether one more job is within the limits."""

    def __init__(self, accounts: Accounts | None, *, is_enforced: bool) -> None:
        self._has_limits = is_enforced and accounts is not None
        self._uses: dict[tuple[object, ...], _Use] = {}

    def _use(self, *key: object) -> _Use:
        found = self._uses.get(key)
        if found is None:
            found = self._uses[key] = _Use()
        return found

    def _uses_of(self, record: Record) -> Iterator[_Use]:
        qos, association = record.qos, record.association
        if qos is not None:
            yield self._use("qos", qos.name)
            yield self._use("qos user", qos.name, record.user)
            if association is not None:
                yield self._use("qos account", qos.name, association.account)
        while association is not None:
            yield self._use("association", id(association))
            association = association.parent

    def started(self, record: Record) -> None:
        """Count a job that starts. O(depth of its account)."""
        if self._has_limits:
            for use in self._uses_of(record):
                use.change(record.tres, 1)

    def ended(self, record: Record) -> None:
        """Count a job that has ended no longer. O(depth of its account)."""
        if self._has_limits:
            for use in self._uses_of(record):
                use.change(record.tres, -1)

    def blocked_by(self, record: Record) -> str:
        """Return Slurm's reason why a job may not start, whatever it would get; empty if it may."""
        if not self._has_limits:
            return ""
        qos, association = record.qos, record.association
        of_qos = None if qos is None else qos.limits
        if qos is not None and of_qos is not None:
            account = "" if association is None else association.account
            for limit, use, reason in (
                (of_qos.grp_jobs, ("qos", qos.name), "QOSGrpJobsLimit"),
                (of_qos.max_jobs_per_user, ("qos user", qos.name, record.user), "QOSMaxJobsPerUserLimit"),
                (of_qos.max_jobs_per_account, ("qos account", qos.name, account), "MaxJobsPerAccount"),
            ):
                if limit is not None and self._use(*use).n_jobs >= limit:
                    return reason
        for level, one in enumerate(_up(association)):
            n_jobs, limits = self._use("association", id(one)).n_jobs, one.limits
            for limit, of_qos_too, reason in (
                (limits.grp_jobs, of_qos and of_qos.grp_jobs, "AssocGrpJobsLimit"),
                (None if level else limits.max_jobs, of_qos and of_qos.max_jobs_per_user, "AssocMaxJobsLimit"),
            ):
                if limit is not None and of_qos_too is None and n_jobs >= limit:
                    return reason
        return ""

    def exceeded_by(self, record: Record, tres: Mapping[str, float]) -> str:
        """Return Slurm's reason why a job that would get these TRES may not start; empty if it may."""
        if not self._has_limits:
            return ""
        qos, association = record.qos, record.association
        of_qos = None if qos is None else qos.limits
        if qos is not None and of_qos is not None:
            account = "" if association is None else association.account
            for limit, use, word in (
                (of_qos.grp_tres, self._use("qos", qos.name), "QOSGrp{}Limit"),
                (of_qos.max_tres_per_user, self._use("qos user", qos.name, record.user), "QOSMax{}PerUserLimit"),
                (of_qos.max_tres_per_account, self._use("qos account", qos.name, account), "MaxTRESPerAccount"),
                (of_qos.max_tres, _NOTHING, "QOSMax{}PerJobLimit"),
            ):
                reason = _first_over(limit, use, tres, word)
                if reason:
                    return reason
        for level, one in enumerate(_up(association)):
            limits = one.limits
            own = {k: v for k, v in limits.grp_tres.items() if of_qos is None or k not in of_qos.grp_tres}
            reason = _first_over(own, self._use("association", id(one)), tres, "AssocGrp{}Limit")
            if not reason and level == 0:
                own = {k: v for k, v in limits.max_tres.items() if of_qos is None or k not in of_qos.max_tres}
                reason = _first_over(own, _NOTHING, tres, "AssocMax{}PerJobLimit")
            if reason:
                return reason
        return ""


_NOTHING = _Use()


def _up(association: Association | None) -> Iterator[Association]:
    while association is not None:
        yield association
        association = association.parent


def _first_over(limits: Mapping[str, float], use: _Use, tres: Mapping[str, float], word: str) -> str:
    for name, limit in limits.items():
        if use.tres[name] + tres.get(name, 0) > limit:
            return word.format(_WORDS.get(name, "TRES"))
    return ""
