"""Check the pins against advisories in a directory, without a network service.

    PYTHONPATH=tests python release/advisories.py DIRECTORY

The directory has records in the Open Source Vulnerability format (OSV), as YAML or JSON, one per file, in any
subdirectories: for example a clone of the Python Packaging Advisory Database, or an unpacked OSV export for PyPI. The
output has the date of the newest record, because later vulnerabilities are unknown.

Exit code 0 if no pin has a known vulnerability, 1 if one has, 2 if a record cannot be read or there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from audit import NOT_AUDITED, VULNERABLE
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from support.packages import pins_in

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if available


class Known(NamedTuple):
    """A known vulnerability of a version of a package."""

    name: str
    version: str
    id: str
    fixed_in: tuple[str, ...]


def record_in(path: Path) -> Mapping[str, Any] | None:
    """Return the record of a file; None if the file is not a record, or the record is withdrawn."""
    text = path.read_text(encoding="utf-8")
    record = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)
    is_one = isinstance(record, dict) and "affected" in record and "id" in record and not record.get("withdrawn")
    return record if is_one else None


def is_within(version: Version, events: list[Mapping[str, str]]) -> bool:
    """Return whether a version is in a range of `introduced`, `fixed` and `last_affected` events.

    >>> is_within(Version("2.1"), [{"introduced": "0"}, {"fixed": "2.0"}, {"introduced": "2.1rc1"}])
    True
    >>> is_within(Version("2.1"), [{"introduced": "0"}, {"last_affected": "2.1"}])
    True
    """
    affected = False
    for kind, at in sorted(((k, v) for event in events for k, v in event.items() if k != "limit"), key=_sort_key):
        if kind == "introduced":
            affected |= at == "0" or Version(at) <= version
        elif kind == "fixed":
            affected &= Version(at) > version
        else:
            affected &= Version(at) >= version
    return affected


def _sort_key(event: tuple[str, str]) -> tuple[Version, int]:
    kind, at = event
    return Version("0.dev0" if at == "0" else at), ("fixed", "introduced", "last_affected").index(kind)


def known_of(record: Mapping[str, Any], pins: Mapping[str, str]) -> Iterator[Known]:
    """Yield the vulnerabilities of pins in a record. Pins are versions by canonical name."""
    for affected in record["affected"]:
        package = affected.get("package", {})
        name = canonicalize_name(str(package.get("name", "")))
        if package.get("ecosystem") != "PyPI" or name not in pins:
            continue
        version = Version(pins[name])
        ranges = [one["events"] for one in affected.get("ranges", ()) if one.get("type") == "ECOSYSTEM"]
        if any(is_within(version, events) for events in ranges) or _is_among(version, affected.get("versions", ())):
            fixed = {event["fixed"] for events in ranges for event in events if "fixed" in event}
            yield Known(name, pins[name], str(record["id"]), tuple(sorted(fixed, key=Version)))


def _is_among(version: Version, versions: list[str]) -> bool:
    for one in versions:
        try:
            if Version(str(one)) == version:
                return True
        except InvalidVersion:  # of some old packages
            continue
    return False


def main() -> int:
    """Check a directory and return the exit code."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("make audit: ADVISORIES must be a directory of advisories", file=sys.stderr)
        return NOT_AUDITED
    pins: dict[str, str] = {canonicalize_name(name): version for name, version in pins_in().items()}
    n_records, newest, found = 0, "", set[Known]()
    for path in sorted(path for path in Path(sys.argv[1]).rglob("*") if path.suffix in {".yaml", ".yml", ".json"}):
        try:
            record = record_in(path)
            found.update(known_of(record, pins) if record else ())
        except (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())[:200]
            print(f"make audit: no pin was audited; {path}: {type(error).__name__}: {why}", file=sys.stderr)
            return NOT_AUDITED
        if record:
            n_records += 1
            newest = max(newest, str(record.get("modified", ""))[:10])
    if not n_records:
        print(f"make audit: no pin was audited; {sys.argv[1]} has no advisories", file=sys.stderr)
        return NOT_AUDITED
    for one in sorted(found):
        print(f"{one.name} {one.version}: {one.id}, fixed in {', '.join(one.fixed_in) or 'none'}")
    n_clean = len(pins) - len({one.name for one in found})
    text = f"{n_clean} of {len(pins)} pins have no vulnerability in {n_records:,} advisories, the newest of {newest}"
    print(f"make audit: {text}", file=sys.stderr if found else sys.stdout)
    return VULNERABLE if found else 0


if __name__ == "__main__":
    sys.exit(main())
