"""Batsim's command line, parsed as Batsim parses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybatsched.errors import InputError
from pybatsched.live import batsim
from pybatsched.live.batsim_options import DEFAULTS, OPTIONS, USAGE, Given, Option, UsageError, read


@pytest.mark.parametrize(
    "args",
    [
        ["-p", "a.xml", "-w", "b.json", "-w", "c.json", "-E", "-q"],
        ["-pa.xml", "-wb.json", "-wc.json", "-Eq"],
        ["--platform=a.xml", "--workload=b.json", "--workload=c.json", "--energy", "--quiet"],
        ["--plat", "a.xml", "--workload", "b.json", "--workload", "c.json", "--ene", "--qui"],
        ["-qEpa.xml", "-wb.json", "-w", "c.json"],
    ],
)
def test_spellings(args: list[str]) -> None:
    given = read(args)
    assert given.one("--platform") == "a.xml"
    assert given.all("--workload") == ["b.json", "c.json"]
    assert given.has("--energy")
    assert given.has("--quiet")


def test_defaults_are_batsims() -> None:
    given = read(["-p", "a.xml"])
    assert given.one("--socket-endpoint") == "tcp://localhost:28000"
    assert given.one("--export") == "out"
    assert given.one("--master-host") == "master_host"
    assert (given.all("--workload"), given.has("--energy")) == ([], False)
    assert set(DEFAULTS) <= {option.name for option in OPTIONS}


def test_a_value_may_look_like_an_option() -> None:
    assert read(["-p", "a.xml", "--sched-cfg", "--energy"]).values == {
        "--platform": [("a.xml",)],
        "--sched-cfg": [("--energy",)],
    }


def test_an_empty_value_stands_behind_an_equals_sign() -> None:
    assert read(["-p", "a.xml", "--export="]).one("--export") == ""


def test_two_values() -> None:
    assert read(["-p", "a", "--WS", "flow.xml", "5", "--workflow-start", "b.xml", "6"]).values["--workflow-start"] == [
        ("flow.xml", "5"),
        ("b.xml", "6"),
    ]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "-p FILE is missing; expected a platform"),
        (["-w", "b.json"], "-p FILE is missing; expected a platform"),
        (["-p"], "--platform requires a value"),
        (["-p", "a", "--WS", "b"], "--workflow-start requires two values"),
        (["-p", "a", "-p", "b"], "--platform: expected once, found twice"),
        (["-p", "a", "-q", "--quiet"], "--quiet: expected once, found twice"),
        (["-p", "a", "b"], "unexpected argument 'b'"),
        (["-p", "a", "--foo"], "unknown option --foo"),
        (["-p", "a", "-Ex"], "unknown option -x"),
        (["-p", "a", "--enable"], "--enable is ambiguous: expected --enable-redis or --enable-dynamic-jobs or"),
        (["-p", "a", "--WS", "b", ""], "--workflow-start requires two values"),
        (["--simgrid-version", "--foo"], "unknown option --foo"),
        (["--help", "-p"], "--platform requires a value"),
        (["-p", "a", "--energy=yes"], "--energy: expected no value, found 'yes'"),
        (["-p", "a", "--sched-cfg", "b", "--sched-cfg-file", "c"], "exclude each other"),
        (["-p", "a", "-e", ""], "--export requires a value"),
        (["-p", "a", "--export", "--"], "--export requires a value"),
        (["-p", "a", "--simgrid-version"], "--simgrid-version: expected no other options"),
    ],
)
def test_invalid_command_lines_are_rejected(args: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read(args)


@pytest.mark.parametrize("args", ["--help --foo", "-hx", "--version more", "-h -p"])
def test_help_is_printed_with_any_other_options(args: str) -> None:
    given = read([*args.split(), "a.xml"])
    assert given.has("--help") or given.has("--version")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("4", 4), (" +4", 4), ("-4", -4), ("4.5", 4), ("4x", 4), ("2147483647", 2**31 - 1)),
        *((text, None) for text in ("2147483648", "9" * 5000, "-+4", "", "x4", "٣")),
    ],
)
def test_numbers_are_read_as_batsim_reads_them(text: str, number: int | None) -> None:
    assert read(["-p", "a", f"--mmax={text}"]).integer("--mmax") == number


def test_sched_cfg_is_not_an_abbreviation_of_sched_cfg_file() -> None:
    assert read(["-p", "a", "--sched-cfg", "x"]).one("--sched-cfg") == "x"
    assert read(["-p", "a", "--sched-cfg-f", "x"]).one("--sched-cfg-file") == "x"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_read_and_in_the_help(option: Option) -> None:
    values = ["x"] * option.n_values
    for name in option.names:
        given = read(["--version", name, *values]) if name != "--version" else read([name])
        assert given.values[option.name] == [tuple(values)]
    assert "redis options" in USAGE
    named = set(re.findall(r"(?<![\w-])--?\w[\w-]*", USAGE))
    assert option.name.startswith("--redis-") or not named.isdisjoint(option.names)


def test_defaults_without_arguments() -> None:
    assert (Given().one("--export"), Given().one("--sched-cfg"), Given().has("--energy")) == ("out", "", False)


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybatsched.live.batsim.shutil.which", lambda name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize("image", ["--privileged", "-v/:/host", "", "a b", "a;reboot", "$(x)", "a\nb", "../x"])
def test_invalid_image_names_are_rejected(image: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the name of an image, such as oarteam/batsim:4.0.0"):
        batsim.in_docker(image, (), tmp_path)


@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize("image", ["batsim", "oarteam/batsim:4.0.0", "localhost:5000/a_b/c-d:1@sha256:0ab"])
def test_valid_image_names_are_accepted(image: str, tmp_path: Path) -> None:
    assert batsim.in_docker(image, (), tmp_path).command[-1] == image


@pytest.mark.usefixtures("docker")
def test_a_directory_with_a_colon_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected directories without a colon"):
        batsim.in_docker("batsim", [tmp_path / "x:" / "etc:rw" / "w.json"], tmp_path)
