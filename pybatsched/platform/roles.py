"""Roles of hosts: build a platform from hosts and their roles, as Batsim does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pybatsched.errors import InputError
from pybatsched.platform.model import DEFAULT_MASTER, Host, Platform

ROLES = ("", "compute_node", "storage", "master")


def read_roles(texts: Iterable[str]) -> dict[str, str]:
    """Read ``host1,host2:role``, the format of Batsim's ``-r``. The last role of a host overrides earlier ones."""
    found = {}
    for text in texts:
        names, colon, role = text.partition(":")
        if not colon or ":" in role or role not in ROLES[1:] or not all(names.split(",")):
            raise InputError(f"role {text!r:.80}: expected HOST,HOST…:ROLE with a role of {', '.join(ROLES[1:])}")
        found.update(dict.fromkeys(names.split(","), role))
    return found


def assemble(
    hosts: Sequence[Host], source: str, *, master: str = DEFAULT_MASTER, roles: Mapping[str, str] | None = None
) -> Platform:
    """Return the platform with hosts sorted by role and name. Two roles are an error. O(n log n)."""
    given = {master: "master", **(roles or {})}
    unseen = set(given)
    groups: dict[str, list[Host]] = {role: [] for role in ROLES}
    for host in sorted(hosts, key=lambda host: host.name):
        if host.name in given:
            unseen.discard(host.name)
            host = _with_role(host, given[host.name])  # noqa: PLW2901  the same host with a role
        if host.role not in groups:
            raise InputError(
                f"{source}: line {host.line}: host {host.name!r} has the role {host.role!r:.80}; expected one of"
                f" {', '.join(ROLES[1:])}, set in one way only (the file, the master's name or given roles)"
            )
        groups[host.role or "compute_node"].append(host)
    compute, masters = groups["compute_node"], groups["master"]
    if not hosts:
        raise InputError(f"{source}: no hosts; expected a master host and at least one compute host")
    if not masters:
        raise InputError(
            f"{source}: no master host; expected one with <prop id='role' value='master'/>, or named {master!r:.80}"
        )
    if len(masters) > 1:
        where = ", ".join(f"{host.name!r} (line {host.line})" for host in masters[:4])
        raise InputError(f"{source}: {len(masters)} master hosts, {where}; expected one")
    if not compute:
        raise InputError(f"{source}: no compute host; expected at least one besides the master and storage")
    for host in compute:
        if host.speed <= 0:
            raise InputError(
                f"{source}: line {host.line}: compute host {host.name!r} has speed 0; expected a speed above 0"
            )
    unseen.discard(DEFAULT_MASTER)
    remarks = tuple(f"{source}: no host is named {name!r:.80}, so its role is ignored" for name in sorted(unseen))
    return Platform(tuple(compute), tuple(groups["storage"]), masters[0], source, remarks=remarks)


def _with_role(host: Host, role: str) -> Host:
    """Return a host with a role added, after a comma if the file already sets one."""
    joined = f"{host.role},{role}" if host.role else role
    return dataclasses.replace(host, properties=MappingProxyType({**host.properties, "role": joined}))
