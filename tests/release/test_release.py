"""Releases: their content, archives that do not depend on the builder, and licences of all pins."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from support.packages import needed_for, pins_in
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT, module_of

import pybatsched

PLACE = ROOT / "release"


@pytest.fixture(scope="module")
def bill() -> Any:
    return module_of("bill", PLACE / "bill.py")


@pytest.fixture(scope="module")
def audit() -> Any:
    return module_of("audit", PLACE / "audit.py")


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pybatsched.__version__ == version
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == version
    for name in ("github-actions.yml", "gitlab-ci.yml"):
        assert f"pybatsched=={version} " in (ROOT / "examples" / "ci" / name).read_text()


def test_all_pins_have_a_listed_licence() -> None:
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \| (.+?) \| (.+?) \|$", (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE
    )
    listed = {name: version for name, version, _, _ in rows if name not in {"package", "---"}}
    assert listed == pins_in()
    assert not [row for row in rows if row[2] == "not said"]


def test_the_bill_of_materials(bill: Any) -> None:
    found = bill.bill(ROOT / "constraints.txt", has_foreign=False)
    text = bill.sbom(found)
    assert text == bill.sbom(list(found))
    content = json.loads(text)
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert content["metadata"]["component"]["purl"] == f"pkg:pypi/pybatsched@{pybatsched.__version__}"
    scopes = {one["name"]: one["scope"] for one in content["components"]}
    assert (scopes["msgspec"], scopes["matplotlib"], scopes["pytest"]) == ("required", "optional", "excluded")
    required = {canonicalize_name(name) for name, scope in scopes.items() if scope == "required"}
    assert required == needed_for("") - {"pybatsched"}
    assert {one["name"]: one["version"] for one in content["components"]}["msgspec"] == metadata.version("msgspec")


def test_all_packages_are_in_the_wheel() -> None:
    """A folder of modules without `__init__.py` would be left out."""
    how = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    folders = {path.parent for name in how["where"] for path in (ROOT / name).glob("pybatsched*/**/*.py")}
    assert {
        ROOT / "pybatsched",
        ROOT / "schedulers/pybatsched_schedulers",
        ROOT / "studies/pybatsched_studies",
    } <= folders
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.long
def test_a_release_is_the_same_bytes_twice(tmp_path: Path) -> None:
    """The command builds twice, and its report is correct."""
    command = [sys.executable, str(PLACE / "build.py"), "--into", str(tmp_path)]
    subprocess.run(
        command,
        check=True,
        timeout=PATIENCE_OF_WORK_S,
        env={"PYTHONPATH": str(ROOT / "tests"), "PATH": os.environ["PATH"]},
    )
    rows = [line.split("  ") for line in (tmp_path / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in rows}
    version = pybatsched.__version__
    assert {*sums} == {f"pybatsched-{version}-py3-none-any.whl", f"pybatsched-{version}.tar.gz", "sbom.json"}
    for name, digest in sums.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    with zipfile.ZipFile(tmp_path / f"pybatsched-{version}-py3-none-any.whl") as wheel:
        kinds = {(name.partition("/")[0], Path(name).suffix) for name in wheel.namelist()}
    info = f"pybatsched-{version}.dist-info"
    assert {place for place, _ in kinds} == {"pybatsched", "pybatsched_schedulers", "pybatsched_studies", info}
    assert {kind for place, kind in kinds if place == "pybatsched_studies"} == {".py", ".toml", ".typed"}
    with tarfile.open(tmp_path / f"pybatsched-{version}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "LICENSE",
        "pyproject.toml",
        "setup.py",
        "pybatsched/policies/_profile.c",
        "schedulers/pybatsched_schedulers/easy.py",
        "studies/pybatsched_studies/dbf/backfilling/study.toml",
    } <= names


CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "X-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("report", "n_pins", "code"),
    [
        ([CLEAN], 1, 0),
        ([CLEAN], 2, 2),
        ([CLEAN, SKIPPED], 2, 2),
        ([CLEAN, BAD], 2, 1),
        ([BAD, SKIPPED], 2, 1),
        ([], 1, 2),
    ],
)
def test_an_audit_passes_only_if_all_packages_were_checked(
    audit: Any, report: list[dict[str, object]], n_pins: int, code: int
) -> None:
    found, lines = audit.summary(report, n_pins)
    assert found == code
    assert ("b 2: X-1, fixed in 3" in lines) == (BAD in report)


def audited(directory: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, str(PLACE / "advisories.py"), str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_OF_WORK_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_audit_by_advisories_in_a_directory(tmp_path: Path) -> None:
    version, n_pins = pins_in()["pydantic"], len(pins_in())
    record = {
        "id": "X-1",
        "modified": "2026-11-02T10:00:00Z",
        "affected": [
            {"package": {"ecosystem": "npm", "name": "pyzmq"}, "versions": [pins_in()["pyzmq"]]},
            {"package": {"ecosystem": "PyPI", "name": "nobody-needs-it"}, "ranges": []},
            {
                "package": {"ecosystem": "PyPI", "name": "Pydantic"},
                "ranges": [
                    {"type": "GIT", "events": [{"introduced": "0"}]},
                    {"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": version}]},
                ],
            },
        ],
    }
    assert audited(tmp_path) == (2, "", f"make audit: no pin was audited; {tmp_path} has no advisories\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.json").write_text(json.dumps(record))
    message = "pins have no vulnerability in 1 advisories, the newest of 2026-11-02\n"
    assert audited(tmp_path) == (0, f"make audit: {n_pins} of {n_pins} {message}", "")

    (tmp_path / "x.yaml").write_text(
        "id: X-2\nmodified: 2026-11-03T10:00:00Z\naffected:\n- package: {ecosystem: PyPI, name: pydantic}\n"
        f"  versions: ['{version}']\n"
    )
    message = "pins have no vulnerability in 2 advisories, the newest of 2026-11-03\n"
    expected = f"pydantic {version}: X-2, fixed in none\n"
    assert audited(tmp_path) == (1, expected, f"make audit: {n_pins - 1} of {n_pins} {message}")

    (tmp_path / "y.json").write_text('{"id": "X-3", "affected": [')
    code, out, output = audited(tmp_path)
    assert (code, out) == (2, "")
    assert output.startswith(f"make audit: no pin was audited; {tmp_path / 'y.json'}: JSONDecodeError: Expecting value")
