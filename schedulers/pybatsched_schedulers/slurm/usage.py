"""Usage of associations and QOS: how it is charged and decays, and fair share (Fair Tree and the classic formula).

Slurm charges running jobs when it decays usage, once in each calculation period. What a job uses after that is charged
at its end, but only if limits are enforced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybatsched import InputError
from pybatsched_schedulers.slurm.accounts import Usage

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc
    from pybatsched_schedulers.slurm.accounts import Accounts, Association
    from pybatsched_schedulers.slurm.jobs import Record

#: The logarithm of 2 as in Slurm.
_LOG_2: Final = 0.693
#: The level of fair share of an account that takes the shares of its parent.
_NO_LEVEL: Final = float(0xFFFFFFFE)
#: How much the usage of the accounts above counts with DEPTH_OBLIVIOUS.
_OBLIVIOUS: Final = 5.0

SHARE_COLUMNS: Final = (
    "Account", "User", "RawShares", "NormShares", "RawUsage", "NormUsage", "EffectvUsage", "FairShare", "LevelFS",
)  # fmt: skip


def billing(tres: Mapping[str, float], partition: sc.Partition, *, takes_maximum: bool = False) -> float:
    """Return what a job is billed for each second: its CPUs, or its resources by the weights of the partition.

    `takes_maximum` is the flag MAX_TRES: the greatest of the resources of nodes, and the sum of all others.
    """
    weights = partition.billing_weights
    if weights is None:
        return tres.get("cpu", 0.0)
    parts = {name: tres.get(name, 0.0) * weight for name, weight in weights.items() if name != "billing"}
    if not takes_maximum:
        return sum(parts.values())
    of_nodes = [part for name, part in parts.items() if name in {"cpu", "mem", "node"} or name.startswith("gres/")]
    return max([0.0, *of_nodes]) + sum(parts.values()) - sum(of_nodes)


class FairShare:
    """The usage of all associations of a cluster, and the fair share of users."""

    def __init__(self, priorities: sc.Priorities, accounts: Accounts, *, counts_tres: bool) -> None:
        self.accounts = accounts
        self.is_fair_tree = priorities.is_fair_tree
        self._is_oblivious = "DEPTH_OBLIVIOUS" in priorities.flags
        self._takes_maximum = bool(priorities.flags & {"MAX_TRES", "MAX_TRES_GRES"})
        self._dampening = priorities.dampening
        self._counts_tres = counts_tres
        self.decay_per_s = 1 - _LOG_2 / priorities.half_life_s
        self._link()
        self.evaluate()

    def _link(self) -> None:
        """Find the levels at which shares are compared, and the shares at each."""
        for one in self.accounts.associations:
            one.share_children = []
        for one in self.accounts.associations[1:]:
            one.share_parent = next(above for above in one.upwards() if above is not one and above.shares is not None)
            one.share_parent.share_children.append(one)
        for parent in self.accounts.associations:
            level = sum(one.shares or 0 for one in parent.share_children)
            for one in parent.share_children:
                one.level_shares = level
        self.accounts.root.norm_shares = 0.0 if self.is_fair_tree else 1.0
        for one in self.accounts.associations[1:]:
            parent = one.share_parent or self.accounts.root
            if one.shares is None:
                one.norm_shares = parent.norm_shares
            else:
                own = one.shares / one.level_shares if one.level_shares else 0.0
                one.norm_shares = own if self.is_fair_tree else own * parent.norm_shares

    # --- usage ---

    def decay(self, time_s: float) -> None:
        """Decay the usage of all associations and QOS. O(associations)."""
        factor = self.decay_per_s**time_s
        if factor != 1:
            self._multiply(factor)

    def reset(self) -> None:
        """Forget all usage."""
        self._multiply(0.0)

    def _multiply(self, factor: float) -> None:
        usages = [one.usage for one in self.accounts.associations]
        usages += [qos.usage for qos in self.accounts.qos.values() if not factor or "nodecay" not in qos.flags]
        for usage in usages:
            usage.raw *= factor
            usage.wall_s *= factor
            for name in usage.tres:
                usage.tres[name] *= factor

    def charge(self, record: Record, begin: float, end: float) -> None:
        """Charge a job for some time. New usage counts as if it were as old as this time. O(depth of its account)."""
        time_s = max(0.0, end - max(begin, record.started_at))
        if not time_s:
            return
        factor = 1.0 if record.qos is None else record.qos.usage_factor
        decayed = time_s * self.decay_per_s**time_s * factor
        billed = billing(record.tres, record.partition, takes_maximum=self._takes_maximum)
        of_partition = self.accounts.qos.get(record.partition.qos)
        for qos in (record.qos, of_partition if of_partition is not record.qos else None):
            if qos is not None:
                self._add(qos.usage, record, time_s * factor if "nodecay" in qos.flags else decayed, billed)
        for one in () if record.association is None else record.association.upwards():
            self._add(one.usage, record, decayed, billed)

    def _add(self, usage: Usage, record: Record, time_s: float, billed: float) -> None:
        usage.raw += time_s * billed
        usage.wall_s += time_s
        if self._counts_tres:
            for name, amount in record.tres.items():
                usage.tres[name] = usage.tres.get(name, 0.0) + time_s * amount

    # --- fair share ---

    def evaluate(self) -> None:
        """Rank all users by Fair Tree, or compute the effective usage of accounts. O(associations log associations)."""
        self.accounts.root.effective_usage = 1.0
        if self.is_fair_tree:
            n_users = len(self.accounts.users)
            _Ranking(n_users, self.accounts.root).rank(self.accounts.root.share_children, is_tied=False)
            return
        for one in self.accounts.associations[1:]:
            if one.user:
                one.effective_usage = None
            else:
                self._set_effective_usage(one)

    def factor(self, association: Association) -> float:
        """Return the fair share factor of a user, or of an account (classic). O(1)."""
        if self.is_fair_tree:
            return association.fair_share
        one = association if association.shares is not None else association.share_parent or association
        if one.effective_usage is None:
            self._set_effective_usage(one)
        if one.norm_shares <= 0 or one.effective_usage is None:
            return 0.0
        return math.exp2(-one.effective_usage / one.norm_shares / self._dampening)

    def _set_effective_usage(self, one: Association) -> None:
        """Compute the effective usage by the classic formula, from the present usage and that of the parent."""
        one.norm_usage = _part(one.usage.raw, self.accounts.root.usage.raw)
        parent = one.share_parent or self.accounts.root
        above = parent.effective_usage or 0.0
        if parent is self.accounts.root:
            one.effective_usage = one.norm_usage
        elif one.shares is None or not one.level_shares:
            one.effective_usage = above
        elif self._is_oblivious:
            one.effective_usage = _oblivious_usage(one, parent, self.accounts.root.usage.raw)
        else:
            one.effective_usage = one.norm_usage + (above - one.norm_usage) * one.shares / one.level_shares


def _part(part: float, whole: float) -> float:
    return min(part / whole, 1.0) if whole else 0.0


def _oblivious_usage(one: Association, parent: Association, whole: float) -> float:
    """Return the effective usage with DEPTH_OBLIVIOUS: the ratios of usage to shares multiply along the tree."""
    above = parent.effective_usage
    if not (one.norm_shares and parent.norm_shares and above and one.norm_usage):
        return one.norm_usage
    of_parent = above / parent.norm_shares
    of_level = sum(_part(sibling.usage.raw, whole) for sibling in parent.share_children if sibling.shares is not None)
    own = one.norm_usage / one.norm_shares / (of_level / parent.norm_shares)
    is_opposite = math.log(of_parent) * math.log(own) < 0
    exponent = 1 / (1 + (_OBLIVIOUS * math.log(of_parent)) ** 2) if is_opposite else 1.0
    return of_parent * math.pow(own, exponent) * one.norm_shares


class _Ranking:
    """One run of Fair Tree: users in falling order of fair share get falling ranks; ties share a rank."""

    def __init__(self, n_users: int, root: Association) -> None:
        self._n_users, self._root = n_users, root
        self._rank = self._rank_without_ties = n_users

    def rank(self, siblings: list[Association], *, is_tied: bool) -> None:
        """Rank the users of a level and below. `is_tied`: the first has the rank of the user before it."""
        for one in siblings:
            self._set_level(one)
        before = _NO_LEVEL
        for i, one in enumerate(sorted(siblings, key=lambda one: (-one.level_fs, not one.user))):
            is_same = (i == 0 and is_tied) or one.level_fs == before
            before = one.level_fs
            if not one.user:
                self.rank(one.share_children, is_tied=is_same)
                continue
            if not is_same:
                self._rank = self._rank_without_ties
            one.fair_share = self._rank / self._n_users
            self._rank_without_ties -= 1

    def _set_level(self, one: Association) -> None:
        parent = one.share_parent or self._root
        one.norm_usage = _part(one.usage.raw, self._root.usage.raw)
        one.effective_usage = used = one.usage.raw / parent.usage.raw if parent.usage.raw else 0.0
        if one.shares is None:
            one.level_fs = math.inf if one.user else _NO_LEVEL
        elif not one.norm_shares:
            one.level_fs = 0.0
        else:
            one.level_fs = one.norm_shares / used if used else math.inf


# --- sshare ---


def share_rows(shares: FairShare) -> Iterator[tuple[str, ...]]:
    """Return the rows of `sshare -alP`, in the order of the associations: SHARE_COLUMNS."""
    root = shares.accounts.root
    for one in shares.accounts.associations:
        depth = sum(1 for _ in one.upwards()) - 1
        factor = "" if shares.is_fair_tree and not one.user else f"{shares.factor(one):.6f}"
        level = "" if shares.is_fair_tree and one is root else f"{one.level_fs if shares.is_fair_tree else 0.0:.6f}"
        yield (
            " " * depth + one.account,
            one.user,
            "" if one is root else "parent" if one.shares is None else str(one.shares),
            f"{one.norm_shares:.6f}",
            str(int(one.usage.raw)),
            "" if one is root else f"{one.norm_usage:.6f}",
            f"{one.effective_usage or 0.0:.6f}",
            factor,
            level,
        )


def load_usage(shares: FairShare, path: Path) -> None:
    """Set the usage of associations from a table of `sshare -alP`, with or without its header."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "expected text in UTF-8"
        raise InputError(f"{path}: {reason}") from None
    columns = [name.lower().replace(" ", "") for name in SHARE_COLUMNS]
    for number, line in enumerate(lines, 1):
        values = [value.strip() for value in line.split("|")]
        if not line.strip() or line.startswith("#"):
            continue
        if values[0].lower() in {"account", "cluster"}:
            columns = [name.lower().replace(" ", "") for name in values]
            continue
        row, where = dict(zip(columns, values, strict=False)), f"{path}: line {number}"
        account, user = row.get("account", "").lower(), row.get("user", "")
        try:
            raw = float(row.get("rawusage", ""))
        except ValueError:
            raise InputError(f"{where}: expected a column RawUsage with a number, as of sshare -alP") from None
        accounts = shares.accounts
        one = accounts.find(user, account, row.get("partition", "")) if user else accounts.accounts.get(account)
        if one is not None:
            one.usage.raw = raw
        elif raw:
            raise InputError(f"{where}: unknown association of account {account}, user {user or '(none)'}")
    shares.evaluate()
