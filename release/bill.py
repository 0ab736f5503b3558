"""Bill of materials: all pins of constraints.txt, their licences, and what each is for.

    python release/bill.py [--sbom FILE] [--licences FILE]

Writes a software bill of materials (CycloneDX 1.6, JSON) of the packages for installations, extras, checks and tests,
and the table of docs/licences.md of all pins. Both depend only on the pins and the metadata of the installed packages,
without dates or random numbers, so the same pins give the same bytes. Packages that are not in this environment are
searched in build/*.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.utils import canonicalize_name
from support.packages import needed_for, pins_in

import pybatsched

ROOT: Final = Path(__file__).parent.parent
EXTRAS: Final = sorted({*(metadata.metadata("pybatsched").get_all("Provides-Extra") or ())} - {"dev"})
TO_RUN, TO_CHECK, FOREIGN = (
    "every installation",
    "checks and tests",
    "programs that tests, benchmarks, `make audit` and `make docs` run",
)
_LONGEST: Final = 60
_CLASSIFIER: Final = "License :: "
_HEAD: Final = """\
# Licences

pybatsched has the MIT licence and contains no code of other projects. The packages below are installed separately, in
the versions of `constraints.txt`, each under its own licence. `make licences` writes this table from the metadata
of the packages.

<!-- make licences -->

| package | version | licence | for |
|---|---|---|---|
"""


class Pin(NamedTuple):
    """One pinned package."""

    name: str
    version: str
    licence: str
    use: str


def licence_of(about: Mapping[str, Any], classifiers: Iterable[str]) -> str:
    """Return the licence of a package: its licence expression, a short text, or its classifiers.

    >>> licence_of({"License-Expression": "MIT"}, [])
    'MIT'
    >>> licence_of({"License": "the whole text of a licence, " * 9}, ["License :: OSI Approved :: BSD License"])
    'BSD License'
    """
    text = " ".join(str(about.get("License-Expression") or about.get("License") or "").split())
    if text and text.upper() != "UNKNOWN" and len(text) <= _LONGEST:
        return text
    named = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith(_CLASSIFIER)]
    return ", ".join(named) or "not said"


def use_of(name: str, needed: Mapping[str, set[str]]) -> str:
    """Return what a package is for. `needed` has the packages of each extra; the empty key is every installation."""
    key = canonicalize_name(name)
    if key in needed[""]:
        return TO_RUN
    extras = [extra for extra in EXTRAS if key in needed[extra]]
    if extras:
        return "extras " + ", ".join(extras) if len(extras) > 1 else f"extra {extras[0]}"
    return TO_CHECK if key in needed["dev"] else FOREIGN


@cache
def _needed() -> dict[str, set[str]]:
    """Return the packages of each extra with their dependencies; the empty key is every installation."""
    return {extra: {str(name) for name in needed_for(extra)} for extra in ("", *EXTRAS, "dev")}


def bill(constraints: Path, *, has_foreign: bool) -> list[Pin]:
    """Return the pins with licence and use. Without `has_foreign`, programs that only tests run are left out.

    Raises SystemExit for a package that is not installed.
    """
    places = [*sys.path, str(ROOT / "build" / "pins"), *map(str, ROOT.glob("build/*/lib/python*/site-packages"))]
    needed = _needed()
    found = []
    for name, version in pins_in(constraints).items():
        use = use_of(name, needed)
        if use == FOREIGN and not has_foreign:
            continue
        installed = metadata.distributions(name=name, path=places)
        one = next((dist for dist in installed if dist.version == version), None)
        if one is None:
            raise SystemExit(f"{name} {version} of {constraints.name} is not installed: run make licences")
        about = one.metadata
        licence = licence_of({key: about[key] for key in about}, about.get_all("Classifier") or ())
        found.append(Pin(name, version, licence, use))
    return sorted(found, key=lambda pin: canonicalize_name(pin.name))


def sbom(pins: Iterable[Pin], version: str = pybatsched.__version__) -> str:
    """Return the bill of a version of pybatsched as CycloneDX. Its serial number is a digest of its content."""
    scopes = {TO_RUN: "required", TO_CHECK: "excluded"}
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("application", "pybatsched", version, "MIT")},
        "components": [
            _component("library", pin.name, pin.version, pin.licence)
            | {"scope": scopes.get(pin.use, "optional"), "properties": [{"name": "pybatsched:for", "value": pin.use}]}
            for pin in pins
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=2, sort_keys=True) + "\n"


def _component(kind: str, name: str, version: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    return {
        "type": kind,
        "name": name,
        "version": version,
        "purl": purl,
        "bom-ref": purl,
        "licenses": [{"license": {"name": licence}}],
    }


def table(pins: Iterable[Pin]) -> str:
    """Return the page of licences."""
    rows = "".join(f"| {name} | {version} | {licence} | {use} |\n" for name, version, licence, use in pins)
    return f"{_HEAD}{rows}\n<!-- end -->\n"


def main() -> None:
    """Write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sbom", type=Path, metavar="FILE")
    parser.add_argument("--licences", type=Path, metavar="FILE")
    args = parser.parse_args()
    for path, text in ((args.sbom, sbom), (args.licences, table)):
        if path is not None:
            pins = bill(ROOT / "constraints.txt", has_foreign=text is table)
            path.write_text(text(pins), encoding="utf-8")
            print(f"{path}: {len(pins)} packages")


if __name__ == "__main__":
    main()
