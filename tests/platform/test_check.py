"""What Batsim would refuse about a platform file, found without Batsim, with the line.

That Batsim does refuse these, and takes what passes, is checked beside a real one in test_batsim_platforms.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.platforms import DEFECTS, GOOD, HARMLESS, read_platform, text_of
from support.process import run_cli

from pybatsched.platform import xml
from pybatsched.platform.check import check
from pybatsched.platform.notes import Remark


def refused(text: str) -> list[Remark]:
    return [finding for finding in check(text.encode(), "p.xml") if finding.is_refused]


def test_a_good_file_passes() -> None:
    assert check(text_of(GOOD).encode(), "p.xml") == []


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found_with_their_line(name: str) -> None:
    defect = DEFECTS[name]
    found = refused(defect.text)
    assert len(found) == defect.n_found
    assert defect.message in found[0].text
    assert found[0].line == defect.line
    assert (f"line {defect.line}" in found[0].text) == (defect.line > 0)


@pytest.mark.parametrize("name", HARMLESS)
def test_platforms_that_batsim_accepts_are_accepted(name: str) -> None:
    assert refused(HARMLESS[name]) == []
    xml.parse(HARMLESS[name].encode(), "p.xml")


def test_all_mistakes_in_elements_are_found_at_once() -> None:
    text = text_of(GOOD).replace('speed="1Gf"', 'speed="abc"').replace('bandwidth="1e300Bps"', 'bandwidth="x"')
    found = refused(text)
    assert [finding.line for finding in found] == [5, 6, 9]
    assert "attribute speed" in found[0].text
    assert "attribute bandwidth" in found[2].text


def test_defects_of_the_network_are_all_found() -> None:
    text = text_of(GOOD).replace('gw_src="nodenodes_router"', 'gw_src="x"').replace('id="trunk"/', 'id="y"/')
    message = "\n".join(finding.text for finding in refused(text))
    assert "attribute gw_src: no host or router 'x' is defined above" in message
    assert "no link 'y' is defined above" in message


def test_notes_do_not_reject_a_platform() -> None:
    slow = text_of(GOOD).replace('latency="0"', 'latency="1us"').replace('radical="100-103"', 'radical="8-11"')
    found = check(slow.encode(), "p.xml")
    assert [finding.is_refused for finding in found] == [False, False]
    assert "Batsim's internal messages take time, up to 1e-06 s on <link id=trunk>, line 9" in found[0].text
    assert "ids follow the order of names as text, so 'node11' comes before 'node8'" in found[1].text


def test_large_platforms_give_a_warning() -> None:
    text = text_of(GOOD).replace('radical="100-103"', 'radical="100000-193311"')
    (found,) = check(text.encode(), "p.xml")
    assert found.text == (
        "p.xml: 93,312 hosts: Batsim needs about 43 s to load them (its load time is quadratic); a coarser unit (a "
        "node, a partition) loads in seconds"
    )


def test_power_properties_are_checked_only_with_energy() -> None:
    text = text_of(GOOD).encode()
    assert check(text, "p.xml") == []
    (found,) = check(text, "p.xml", energy=True)
    assert (found.line, found.is_refused) == (5, True)
    assert "has no property wattage_per_state" in found.text


def test_the_command(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text(text_of(GOOD))
    bad.write_text(DEFECTS["two masters"].text)
    done = run_cli("platform", "check", str(good))
    assert (done.returncode, done.stdout) == (0, f"{good}: Batsim would accept it\n")
    done = run_cli("platform", "check", str(good), str(bad), "curie-node")
    assert done.returncode == 7
    assert "2 master hosts, 'boss0' (line 6), 'chief0' (line 7); expected one (rejected)" in done.stdout
    assert f"{bad}: 1 error, Batsim rejects it" in done.stdout
    assert "curie-node: Batsim would accept it" in done.stdout
    assert run_cli("platform", "check", str(tmp_path / "none.xml")).returncode == 2
    assert run_cli("platform", "check", str(bad), "-q").stdout.count("\n") == 1


def test_roles_may_be_given_as_to_batsim(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(text_of(GOOD).replace('<prop id="role" value="master"/>', ""))
    assert run_cli("platform", "check", str(path)).returncode == 7
    assert run_cli("platform", "check", str(path), "-m", "boss0").returncode == 0
    assert run_cli("platform", "check", str(path), "-r", "boss0:master").returncode == 0


@pytest.mark.parametrize("name", ["curie", "intrepid-pset", "rackham"])
def test_show_is_a_table(name: str) -> None:
    done = run_cli("platform", "show", name)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].startswith("ids")
    assert ("a coarser unit" in done.stderr) == (name == "curie")


def test_show_points_to_the_coarser_unit_by_name() -> None:
    assert "loads in seconds: intrepid-pset, intrepid-node" in run_cli("platform", "show", "intrepid").stderr


def test_list_and_generate(tmp_path: Path) -> None:
    listed = run_cli("platform", "list").stdout
    assert "curie          core 93,312, node 5,274" in listed
    path = tmp_path / "deep" / "wide.xml"
    args = ("--unit", "pset", "--alpha", "0.15", "--energy", "--batsim", "4.2.1", "--output", str(path))
    assert run_cli("platform", "generate", "intrepid", *args).returncode == 0
    assert read_platform(path).n_procs == 753
    assert "watt_per_state" not in path.read_text()
    assert run_cli("platform", "generate", "intrepid", "--output", "-").stdout.startswith("<?xml")
    wrong = run_cli("platform", "generate", "atlantis", "--output", "-")
    assert wrong.returncode == 2
    assert "unknown machine 'atlantis'; expected one of curie (core, node)" in wrong.stderr
    wrong = run_cli("platform", "generate", "curie-nod", "--output", "-")
    assert "unknown machine 'curie-nod'; did you mean 'curie-node'? Expected one of curie (core, node)" in wrong.stderr
    wrong = run_cli("platform", "show", "rakham")
    assert "unknown platform 'rakham'; did you mean 'rackham'? Expected a file, or one of the machines " in wrong.stderr
    assert run_cli("platform", "generate", "curie-node", "--unit", "core", "--output", "-").returncode == 2
    assert run_cli("platform", "generate", "all", "--energy", "--output", str(tmp_path)).returncode == 2


def test_all_hosts_of_a_zone_without_routing_are_one_error() -> None:
    hosts = "".join(f'<host id="h{k}" speed="1Gf"/>\n' for k in range(4))
    text = text_of(('<zone id="z" routing="None">', '<host id="master_host" speed="1Gf"/>', hosts, "</zone>"))
    expected = "zone 'z' has routing None, so no message can reach its 5 hosts"
    (found,) = refused(text)
    assert found.text == f"p.xml: line {found.line}: {expected}"
    assert xml.parse(text.encode(), "p.xml").refused == (found.text,)
