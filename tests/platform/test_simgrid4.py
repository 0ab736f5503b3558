"""What Batsim 5 on SimGrid 4 refuses or means otherwise about a platform, found without it, with the line.

That Batsim 5 does so is checked beside a real one in test_batsim5_platforms.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import ROOT
from support.platforms import DEFECTS, GOOD, HARMLESS, MASTER, ONLY_BATSIM_4, text_of
from support.process import run_cli

from pybatsched.machines import names
from pybatsched.platform.check import check
from pybatsched.platform.notes import Remark


def found(text: str, *, batsim5: bool = True) -> list[Remark]:
    return check(text.encode(), "p.xml", batsim5=batsim5, master=MASTER)


def refused(text: str, *, batsim5: bool = True) -> list[Remark]:
    return [finding for finding in found(text, batsim5=batsim5) if finding.is_refused]


@pytest.mark.parametrize("name", ONLY_BATSIM_4)
def test_elements_for_batsim_4_only_are_reported_with_their_line(name: str) -> None:
    defect = ONLY_BATSIM_4[name]
    assert refused(defect.text, batsim5=False) == []
    errors = refused(defect.text)
    assert len(errors) == defect.n_found
    assert defect.message in errors[0].text
    assert errors[0].line == defect.line
    assert errors[0].text.startswith(f"p.xml: line {defect.line}: ")


@pytest.mark.parametrize("name", DEFECTS)
def test_platforms_that_batsim_4_rejects_are_also_rejected(name: str) -> None:
    assert refused(DEFECTS[name].text) == refused(DEFECTS[name].text, batsim5=False)


@pytest.mark.parametrize("name", HARMLESS)
def test_platforms_that_both_accept_are_accepted(name: str) -> None:
    assert refused(HARMLESS[name]) == []


def test_properties_of_clusters_are_noted_once() -> None:
    nodes = GOOD[0].replace("/>", '><prop id="memory" value="64"/></cluster>')
    text = text_of((nodes, *GOOD[1:]))
    assert [one for one in found(text) if one.line] == [
        Remark(
            5,
            "p.xml: line 5: <cluster id=nodes>: in Batsim 5 its properties belong only to its hosts and are not in "
            "their zone_properties",
            False,
        )
    ]
    assert [one for one in found(text, batsim5=False) if one.line] == []


@pytest.mark.parametrize(
    "name",
    # Machines by the core have up to 163,840 hosts.
    [pytest.param(name, marks=pytest.mark.long) if "-core" in name else name for name in names.shipped()],
)
def test_all_machines_are_for_both(name: str) -> None:
    assert [one.text for one in check(names.find(name).data(), name, batsim5=True) if one.is_refused] == []


def test_the_command_prints_the_checked_version_of_batsim(tmp_path: Path) -> None:
    defect = ONLY_BATSIM_4["a torus in no zone"]
    (tmp_path / "p.xml").write_text(defect.text)
    args = ("platform", "check", "p.xml", "-m", MASTER)
    done = run_cli(*args, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "p.xml: Batsim would accept it")
    done = run_cli(*args, "--for", "batsim5", cwd=tmp_path)
    assert done.returncode == 7
    assert done.stdout.splitlines() == [
        f"p.xml: line {defect.line}: {defect.message} (rejected)",
        "p.xml: 1 error, Batsim 5 rejects it",
    ]
    done = run_cli("platform", "check", "--for", "batsim5", str(ROOT / "platforms" / "cluster32.xml"))
    assert done.stdout.splitlines()[-1].endswith("cluster32.xml: Batsim 5 would accept it")
