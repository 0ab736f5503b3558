"""Accounts, users, shares, QOS and limits: from `sacctmgr dump`, `sacctmgr show assoc -P` and `sacctmgr show qos -P`.

Limits of single jobs, of jobs, the priority and the QOS are inherited from the account above, as in Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pybatsched import InputError, slurm_conf as sc

#: A name and a value in a dump: a colon may be in quotes, or before a type of GPUs.
_PAIR: Final = re.compile(r":(\w+)([+-]?)=('[^']*'|(?:gres/gpu:|[^:])*)")
_QUOTE: Final = "'"
#: Fairshare=parent in a dump.
_PARENT: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an association or a QOS, by the names of sacctmgr. None or nothing: no limit. Memory is in MB."""

    grp_tres: Mapping[str, float] = field(default_factory=dict)
    grp_tres_mins: Mapping[str, float] = field(default_factory=dict)
    grp_tres_run_mins: Mapping[str, float] = field(default_factory=dict)
    grp_jobs: int | None = None
    grp_submit: int | None = None
    grp_wall_s: float | None = None
    #: Of each job, or of each node of a job.
    max_tres: Mapping[str, float] = field(default_factory=dict)
    max_tres_per_node: Mapping[str, float] = field(default_factory=dict)
    max_tres_mins: Mapping[str, float] = field(default_factory=dict)
    max_wall_s: float | None = None
    min_tres: Mapping[str, float] = field(default_factory=dict)
    #: Of an association.
    max_jobs: int | None = None
    max_submit: int | None = None
    #: Of each user or account in a QOS.
    max_tres_per_user: Mapping[str, float] = field(default_factory=dict)
    max_jobs_per_user: int | None = None
    max_submit_per_user: int | None = None
    max_tres_per_account: Mapping[str, float] = field(default_factory=dict)
    max_jobs_per_account: int | None = None
    max_submit_per_account: int | None = None
    #: Minutes that are left to running jobs.
    max_tres_run_mins_per_user: Mapping[str, float] = field(default_factory=dict)
    max_tres_run_mins_per_account: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Usage:
    """What was used, decayed: billed seconds, seconds of each TRES, and seconds of jobs."""

    raw: float = 0.0
    tres: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0


@dataclass(slots=True, eq=False)
class Qos:
    """A quality of service."""

    name: str
    priority: int = 0
    preempts: frozenset[str] = frozenset()
    #: off, cancel or requeue; "" for the mode of the cluster.
    preempt_mode: str = ""
    #: In small letters, such as denyonlimit.
    flags: frozenset[str] = frozenset()
    limits: Limits = Limits()
    usage_factor: float = 1.0
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True, eq=False)
class Association:
    """An account, or a user in an account, with its usage and fair share."""

    account: str
    #: "" for an account.
    user: str = ""
    partition: str = ""
    parent: Association | None = None
    children: list[Association] = field(default_factory=list)
    #: None: those of the parent.
    shares: int | None = 1
    limits: Limits = Limits()
    priority: int = 0
    qos: frozenset[str] = frozenset()
    default_qos: str = ""

    usage: Usage = field(default_factory=Usage)
    #: The nearest association above with shares of its own, and those that compare their shares below this one.
    share_parent: Association | None = None
    share_children: list[Association] = field(default_factory=list)
    #: The sum of the shares at its level.
    level_shares: int = 0
    #: Shares in the whole (classic), or at its level (Fair Tree).
    norm_shares: float = 0.0
    norm_usage: float = 0.0
    #: Usage at its level (Fair Tree), or with that of accounts above (classic). None: computed when it is needed.
    effective_usage: float | None = None
    level_fs: float = 0.0
    fair_share: float = 0.0

    @property
    def name(self) -> str:
        """The user, or the account."""
        return self.user or self.account

    def upwards(self) -> Iterator[Association]:
        """Return this association and all above it."""
        one: Association | None = self
        while one is not None:
            yield one
            one = one.parent


class Accounts:
    """The associations of a cluster, and its QOS."""

    def __init__(self, root: Association, qos: Mapping[str, Qos], unsupported: Iterable[sc.Unsupported] = ()) -> None:
        self.root = root
        self.qos = dict(qos)
        #: Whether the QOS have their limits, not only names.
        self.knows_qos = True
        self.unsupported = tuple(unsupported)
        self.default_accounts: dict[str, str] = {}
        #: All associations, each after the one above it.
        self.associations: list[Association] = []
        stack = [root]
        while stack:
            one = stack.pop()
            self.associations.append(one)
            stack += reversed(one.children)
        self.accounts = {one.account: one for one in self.associations if not one.user}
        self._users = {(one.user, one.account, one.partition): one for one in self.associations if one.user}
        for one in self.associations:
            if one.user:
                self.default_accounts.setdefault(one.user, one.account)

    def find(self, user: str, account: str = "", partition: str = "") -> Association | None:
        """Return the association of a user; without an account, that of the user's default account."""
        account = account.lower() or self.default_accounts.get(user, "")
        return self._users.get((user, account, partition)) or self._users.get((user, account, ""))

    @property
    def users(self) -> list[Association]:
        """The associations of users, in order."""
        return [one for one in self.associations if one.user]


# --- values ---


def _count(text: str) -> int | None:
    if text.lower() in {"-1", "unlimited", "infinite"}:
        return None
    if not re.fullmatch(r"\d+", text):
        raise ValueError("a whole number")
    return int(text)


def _time(text: str) -> float | None:
    return None if text == "-1" else sc.whole_minutes(text)


#: The names of limits as `_plain` writes them, and their fields.
_LIMITS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "grptres": ("grp_tres", sc.tres_limits),
    "grptresmins": ("grp_tres_mins", sc.tres_limits),
    "grptresrunmins": ("grp_tres_run_mins", sc.tres_limits),
    "grpjobs": ("grp_jobs", _count),
    "grpsubmit": ("grp_submit", _count),
    "grpwall": ("grp_wall_s", _time),
    "maxtres": ("max_tres", sc.tres_limits),
    "maxtrespernode": ("max_tres_per_node", sc.tres_limits),
    "maxtresmins": ("max_tres_mins", sc.tres_limits),
    "maxwall": ("max_wall_s", _time),
    "maxwallduration": ("max_wall_s", _time),
    "mintres": ("min_tres", sc.tres_limits),
    "maxjobs": ("max_jobs", _count),
    "maxsubmit": ("max_submit", _count),
    "maxtresperuser": ("max_tres_per_user", sc.tres_limits),
    "maxjobsperuser": ("max_jobs_per_user", _count),
    "maxsubmitperuser": ("max_submit_per_user", _count),
    "maxtresperaccount": ("max_tres_per_account", sc.tres_limits),
    "maxjobsperaccount": ("max_jobs_per_account", _count),
    "maxsubmitperaccount": ("max_submit_per_account", _count),
    "maxtresrunminsperuser": ("max_tres_run_mins_per_user", sc.tres_limits),
    "maxtresrunminsperaccount": ("max_tres_run_mins_per_account", sc.tres_limits),
}
_ENDINGS: Final = (("pu", "peruser"), ("pa", "peraccount"), ("pn", "pernode"), ("pj", ""), ("perjob", ""))
_INHERITED: Final = ("max_wall_s", "max_jobs", "max_submit")
_INHERITED_TRES: Final = ("max_tres", "max_tres_per_node", "max_tres_mins")
_OTHER_NAMES: Final = {"share": "fairshare", "rawshares": "fairshare", "defqos": "defaultqos", "parent": "parentname"}
#: Limits and attributes that are not simulated: values with the same effect, and the effect.
NOT_SIMULATED: Final = {
    "grpjobsaccrue": ("", "any number of jobs age"),
    "maxjobsaccrue": ("", "any number of jobs age"),
    "maxjobsaccrueperuser": ("", "any number of jobs age"),
    "maxjobsaccrueperaccount": ("", "any number of jobs age"),
    "maxtresrunmins": ("", "running jobs have no limit by their remaining time"),
    "minpriorthresh": ("0", "jobs of any priority can be reserved for"),
    "limitfactor": ("1.000000", "limits are not multiplied"),
    "gracetime": ("0 00:00:00", "preempted jobs end at once"),
    "preemptexempttime": ("0 00:00:00 -1", "running jobs can be preempted at once"),
    "usagethres": ("", "jobs start with any fair share"),
    "usagethreshold": ("", "jobs start with any fair share"),
}

#: Columns that are read elsewhere, or have no effect on scheduling.
_OTHER_COLUMNS: Final = frozenset({
    "account", "adminlevel", "classification", "cluster", "comment", "coordinator", "coordinators", "defaultaccount",
    "defaultqos", "defaultwckey", "descr", "description", "fairshare", "features", "federation", "fedstate", "flags",
    "id", "lft", "lineage", "name", "org", "organization", "parentid", "parentname", "partition", "preempt",
    "preemptmode", "priority", "qos", "rgt", "rpc", "usagefactor", "user", "wckeys",
})  # fmt: skip

#: The flags of QOS that are simulated. Jobs that could never start are always rejected, as with denyonlimit.
_QOS_FLAGS: Final = frozenset({
    "denyonlimit", "nodecay", "noreserve", "overpartqos", "partitionmaxnodes", "partitionminnodes",
    "partitiontimelimit", "usagefactorsafe",
})  # fmt: skip


def _plain(name: str) -> str:
    """Return the name of a column or key without what differs between the commands of Slurm.

    >>> _plain("MaxTRESPU"), _plain("MaxWallDurationPerJob"), _plain("GrpSubmitJobs"), _plain("Def QOS")
    ('maxtresperuser', 'maxwallduration', 'grpsubmit', 'defaultqos')
    """
    plain = name.lower().replace(" ", "")
    plain = _OTHER_NAMES.get(plain, plain)
    if plain.startswith(("max", "min", "grp")):
        for ending, instead in _ENDINGS:
            if plain.endswith(ending):
                plain = plain.removesuffix(ending) + instead
                break
        plain = plain.replace("submitjobs", "submit")
    return plain


class _Row:
    """The values of a line by their plain names, with the place of the line."""

    def __init__(self, where: str, values: Mapping[str, str]) -> None:
        self.where = where
        self.values = {_plain(name): value.strip() for name, value in values.items() if value.strip()}

    def text(self, name: str) -> str:
        """Return a value as it is, or "" without one."""
        return self.values.get(name, "")

    def read(self, name: str, how: Callable[[str], Any], default: Any) -> Any:
        """Read a value. `how` raises ValueError with what was expected."""
        if name not in self.values:
            return default
        try:
            return how(self.values[name])
        except ValueError as error:
            raise InputError(f"{self.where}: {name}={self.values[name]}: expected {error}") from None

    def limits(self) -> Limits:
        """Return all limits of the line."""
        return Limits(
            **{known: self.read(name, how, None) for name, (known, how) in _LIMITS.items() if self.text(name)}
        )

    def unsupported(self) -> Iterator[sc.Unsupported]:
        """Return the limits and attributes that are not simulated."""
        for name, (harmless, effect) in NOT_SIMULATED.items():
            if self.text(name) and self.text(name) not in harmless.split():
                yield sc.Unsupported(name, self.text(name), effect)
        for name in ("grptresmins", "grpwall"):
            if self.text(name):
                yield sc.Unsupported(name, self.text(name), "it holds waiting jobs; running jobs are not killed by it")
        for name in sorted(self.values.keys() - _LIMITS.keys() - NOT_SIMULATED.keys() - _OTHER_COLUMNS):
            yield sc.Unsupported(name, self.text(name), "this column is unknown")


def _text_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _table(path: Path) -> Iterator[_Row]:
    """Return the lines of a table with columns between bars."""
    lines = _text_of(path)
    names = lines[0].strip().split("|") if lines else []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        values = line.split("|")
        if len(values) < len([name for name in names if name]):
            raise InputError(f"{path}: line {number}: expected {len(names)} columns, found {len(values)}")
        yield _Row(f"{path}: line {number}", dict(zip(names, values, strict=False)))


# --- associations ---


def _dump(path: Path, cluster: str) -> Iterator[_Row]:
    """Return the lines of `sacctmgr dump` as rows of a table: account, user, parentname; or name, of a QOS."""
    parent = ""
    for number, line in enumerate(_text_of(path), 1):
        if line.startswith("#") or not line.strip():
            continue
        where = f"{path}: line {number}"
        found = re.match(r"(QOS|Cluster|Parent|Account|User)\s*-\s*'([^']*)'(.*)$", line.strip(), re.IGNORECASE)
        if found is None:
            raise InputError(f"{where}: expected QOS, Cluster, Parent, Account, or User - 'name':..., found {line:.60}")
        kind, name = found[1].lower(), found[2]
        values = {key: f"{sign}{value.strip(_QUOTE)}" for key, sign, value in _PAIR.findall(found[3])}
        if kind == "qos":
            yield _Row(where, {**values, "name": name})
        elif kind == "parent":
            parent = name
        elif kind == "cluster":
            if cluster and name != cluster:
                raise InputError(f"{where}: expected cluster {cluster}, found {name}")
            yield _Row(where, {**values, "account": "root"})
        elif kind == "account":
            if name != "root":
                yield _Row(where, {**values, "account": name, "parentname": parent})
        else:
            yield _Row(where, {**values, "account": parent, "user": name})


def _shares(text: str) -> int | None:
    if text.lower() == "parent":
        return None
    shares = _count(text)
    return None if shares == _PARENT else shares


def _qos_of(text: str, inherited: frozenset[str]) -> frozenset[str]:
    """Return the QOS of an association: a list, or with + and - changes to the inherited ones."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    own = {name for name in names if name[0] not in "+-"}
    changed = (own or set(inherited)) | {name[1:] for name in names if name[0] == "+"}
    return frozenset(changed - {name[1:] for name in names if name[0] == "-"})


def _inherited(own: Limits, parent: Limits) -> Limits:
    """Return limits with those of the parent where there are none."""
    changes: dict[str, Any] = {name: getattr(parent, name) for name in _INHERITED if getattr(own, name) is None}
    changes |= {name: {**getattr(parent, name), **getattr(own, name)} for name in _INHERITED_TRES}
    return replace(own, **changes)


def _association(row: _Row, parent: Association | None) -> Association:
    limits = row.limits()
    one = Association(
        account=row.text("account").lower(),
        user=row.text("user"),
        partition=row.text("partition"),
        parent=parent,
        shares=row.read("fairshare", _shares, 1),
        limits=limits if parent is None else _inherited(limits, parent.limits),
        priority=row.read("priority", _count, None) or (parent.priority if parent else 0),
        qos=_qos_of(row.text("qos"), parent.qos if parent else frozenset()),
        default_qos=row.text("defaultqos") or (parent.default_qos if parent else ""),
    )
    if parent is not None:
        parent.children.append(one)
    return one


def _tree(path: Path, rows: list[_Row]) -> Association:
    """Return the account root with all others below it, in the order of the lines."""
    accounts: dict[str, Association] = {}
    waiting = rows
    while waiting:
        later = []
        for row in waiting:
            name, is_user = row.text("account").lower(), bool(row.text("user"))
            above = name if is_user else row.text("parentname").lower()
            if name == "root" and not is_user:
                accounts[name] = _association(row, None)
            elif above not in accounts:
                later.append(row)
            else:
                one = _association(row, accounts[above])
                if not is_user:
                    accounts[name] = one
        if len(later) == len(waiting):
            row = later[0]
            unknown = row.text("account" if row.text("user") else "parentname") or "(none)"
            advice = "; expected a file of `sacctmgr dump`, or the columns ParentName and Account of all accounts"
            raise InputError(f"{row.where}: unknown account {unknown}{'' if row.text('parentname') else advice}")
        waiting = later
    if "root" not in accounts:
        raise InputError(f"{path}: expected the account root")
    return accounts["root"]


def _of_cluster(path: Path, rows: Iterable[_Row], cluster: str) -> list[_Row]:
    """Return the rows of one cluster."""
    found = list(rows)
    clusters = {row.text("cluster") for row in found} - {""}
    if cluster in clusters:
        return [row for row in found if row.text("cluster") == cluster]
    if cluster and clusters:
        raise InputError(f"{path}: expected cluster {cluster}, found {', '.join(sorted(clusters))}")
    if len(clusters) > 1:
        raise InputError(f"{path}: expected one cluster, found {', '.join(sorted(clusters))}")
    return found


# --- QOS ---


def _qos(path: Path, rows: Iterable[_Row]) -> tuple[dict[str, Qos], list[sc.Unsupported]]:
    qos: dict[str, Qos] = {}
    unsupported: list[sc.Unsupported] = []
    for row in rows:
        name = row.text("name")
        if not name:
            raise InputError(f"{row.where}: expected a column Name with the name of a QOS")
        qos[name] = Qos(
            name=name,
            priority=row.read("priority", _count, 0) or 0,
            preempts=frozenset(filter(None, row.text("preempt").split(","))),
            preempt_mode=row.read("preemptmode", sc.preempt_mode_of, ""),
            flags=frozenset(filter(None, row.text("flags").lower().split(","))),
            limits=row.limits(),
            usage_factor=row.read("usagefactor", float, 1.0),
        )
        unsupported += row.unsupported()
        for flag in sorted(qos[name].flags - _QOS_FLAGS):
            unsupported.append(sc.Unsupported("Flags", flag, f"QOS {name} is as without this flag"))
    for one in qos.values():
        unknown = sorted(one.preempts - qos.keys())
        if unknown:
            raise InputError(f"{path}: QOS {one.name}: unknown QOS {unknown[0]} in Preempt")
    return qos, unsupported


def read_accounts(associations: Path, qos: Path | None = None, cluster: str = "") -> Accounts:
    """Read the associations of a cluster, and perhaps its QOS.

    `associations` is a file of `sacctmgr dump`, or the table of `sacctmgr show assoc -P` with ParentName. `qos` is the
    table of `sacctmgr show qos -P`: a dump has the QOS since Slurm 25.05, and only their names before.
    """
    first = next((line for line in _text_of(associations) if line.strip()), "")
    is_dump = "|" not in first
    rows = list(_dump(associations, cluster)) if is_dump else _of_cluster(associations, _table(associations), cluster)
    of_dump, rows = [row for row in rows if row.text("name")], [row for row in rows if not row.text("name")]
    root = _tree(associations, rows)
    known, of_qos = _qos(qos or associations, _table(qos) if qos else of_dump)
    unsupported = [*of_qos, *(one for row in rows for one in row.unsupported())]
    accounts = Accounts(root, known)
    named = {name for one in accounts.associations for name in (*one.qos, one.default_qos) if name}
    if not known:
        accounts.qos = {name: Qos(name) for name in sorted(named | {"normal"})}
        if named - {"normal"}:
            effect = "without sacctmgr show qos -P they have no priorities, limits and preemption"
            unsupported.append(sc.Unsupported("QOS", ",".join(sorted(named)), effect))
    elif named - known.keys():
        raise InputError(
            f"{associations}: unknown QOS {min(named - known.keys())}; expected one of those in {qos or associations}"
        )
    accounts.knows_qos = bool(known)
    accounts.unsupported = tuple({(one.name, one.effect): one for one in reversed(unsupported)}.values())[::-1]
    for row in rows:
        if row.text("user") and row.text("defaultaccount"):
            accounts.default_accounts[row.text("user")] = row.text("defaultaccount").lower()
    return accounts
