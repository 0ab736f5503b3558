"""The command line: help, versions, listings, options and the exit codes of mistakes."""

from __future__ import annotations

import ast
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import Peer, Server, run_cli
from support.recordings import recording

from pybatsched import __version__, cli
from pybatsched.policies.availability import AvailabilityProfile, PlainProfile


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["-h"], ["dance"], []])
def test_version_and_help_import_no_command_module(args: list[str]) -> None:
    """The health check of a container asks for the version often, and help should be fast.

    No time is measured: importing other packages is slow, and none of them is imported.
    """
    script = (
        "import sys; before = {*sys.modules}; from pybatsched import cli\n"
        f"try: cli.main({args!r})\n"
        "except SystemExit: print({*sys.modules} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = ast.literal_eval(done.stdout.splitlines()[-1])
    foreign = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    rooms = {"pybatsched.core", "pybatsched.policies"}  # empty ones; which build it is, is found out in there
    own = {f"pybatsched.{name}" for name in ("cli", "deprecations", "errors", "version")}
    assert foreign - rooms == {"pybatsched", *own}


def test_the_command_list_shows_the_docstring_of_each_command() -> None:
    for name, summary in cli._COMMANDS.items():
        module = cli.module_of(name)
        assert (module.__doc__ or "").splitlines()[0] == summary


def test_every_command_is_in_the_help_and_has_its_own_help() -> None:
    whole = cli.build_parser().format_help()
    for name in cli._COMMANDS:
        assert f"    {name}" in [line[: 4 + len(name)] for line in whole.splitlines()]
        assert run_cli(name, "--help").stdout.startswith(f"usage: pybatsched {name} ")


def test_version_and_help() -> None:
    build = "pure Python" if AvailabilityProfile is PlainProfile else "compiled"
    assert run_cli("--version").stdout == f"pybatsched {__version__} ({build})\n"
    shown = run_cli("--help")
    assert shown.returncode == 0
    for text in ("pybatsched --policy easy", "exit codes:", "explain", "replay", "policies", "serve"):
        assert text in shown.stdout
    assert "--journal" in run_cli("serve", "--help").stdout
    assert "--policy" in run_cli("--policy", "easy", "--help").stdout


def test_policies() -> None:
    listed = run_cli("policies").stdout
    published = ["published_locality", "published_predictsim", "published_rlscheduler"]
    shipped = ["conservative", "dbf", "easy", "fcfs", "locality", *published]
    shipped += ["reallocation", "redirection", "rl", "slurm", "ujf", "ujfb"]
    assert [line.split()[0] for line in listed.splitlines()] == shipped
    shown = run_cli("policies", "conservative").stdout
    assert "compression = true" in shown
    assert " 0x" not in shown + run_cli("policies", "easy").stdout  # types are shown as words, not as Python objects
    assert 'order = "fcfs"' in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--policy esay", "unknown policy 'esay'; did you mean 'easy'? Installed: conservative, dbf, easy, fcfs,"),
        ("--policy easy -o order", "-o 'order': expected KEY=VALUE"),
        ("--policy easy -o order=random", "option order (from -o)"),
        ("--policy easy -o ordre=sjf", "unknown option 'ordre' (from -o); did you mean 'order'? Expected one of: "),
        ("--policy easy --config gone.toml", "--config gone.toml: cannot be read: No such file"),
        ("--policy easy --timeout -1", "expected a number of seconds, 0 or more"),
        ("--policy easy --timeout soon", "--timeout"),
        ("--policy easy --max-message 0", "expected a size in MiB"),
        ("--policy easy --journal no/such/dir/x", "cannot be written"),
        ("--policy", "expected one argument"),
        ("--endpoint tcp://127.0.0.1:1", "--policy"),
        ("policies nope", "unknown policy 'nope'"),
        ("replay gone.pbj", "cannot be read: No such file"),
        ("explain gone.pbj w0!1", "cannot be read: No such file"),
        ("replay n\0", "argument 'n\\x00': expected text without NUL characters"),
        ("keys n\0", "argument 'n\\x00': expected text without NUL characters"),
        ("dance", "invalid choice"),
        ("", "required: COMMAND"),
    ],
)
def test_usage_errors_give_code_2_and_one_message(arguments: str, message: str, tmp_path: Path) -> None:
    done = run_cli(*arguments.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("serve", ("--policy", "easy")),
        ("simulate", ()),
        ("metrics", ("out",)),
        ("workload convert", ("a.swf", "b.json")),
        ("workload inject FILE urgent", ("--share", "0.1", "--output", "b.json")),
        ("campaign run", ("study.toml",)),
    ],
)
def test_a_wrong_option_shows_the_usage_of_its_own_command(command: str, args: tuple[str, ...]) -> None:
    done = run_cli(*command.split(), *args, "--xyz", "thing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: pybatsched {command} ")
    assert done.stderr.endswith(f"\npybatsched {command}: error: unrecognized arguments: --xyz thing\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--policy easy --order sjf", "--order sjf; order is an option of the policy easy: use -o order=sjf"),
        (
            "simulate --policy easy '--order=a b' --assume-walltime 60",
            (
                "--order=a b --assume-walltime 60; order is an option of the policy easy: use -o 'order=a b'; "
                "assume_walltime is an option of the policy easy: use -o assume_walltime=60"
            ),
        ),
        (
            "simulate --policy easy --order --no-such",
            "--order --no-such; order is an option of the policy easy: use -o order=VALUE",
        ),
        ("simulate --theta 3", "--theta 3; theta is an option of the policy redirection: use -o theta=3"),
        ("replay run.pbj --theta -1", "--theta -1; theta is an option of the policy redirection: use -o theta=-1"),
        (
            "simulate --policy fcfs --compression false",
            "--compression false; compression is an option of the policies conservative, dbf, ujfb",
        ),
        ("simulate --policy no-such --theta 3", "--theta 3; theta is an option of the policy redirection"),
        ("metrics out --order sjf", "--order sjf"),
        ("simulate --stop-att 3", "--stop-att 3; did you mean --stop-at?"),
        ("simulate --n-procs 4 --tau_s=1", "--n-procs 4 --tau_s=1; did you mean --procs?; did you mean --tau?"),
        ("campaign run study.toml --resum", "--resum; did you mean --resume?"),
    ],
)
def test_a_policy_option_given_as_a_flag_has_a_hint(args: str, message: str) -> None:
    done = run_cli(*shlex.split(args))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"error: unrecognized arguments: {message}\n")


def test_all_policies_with_an_option_are_named_where_none_is_given() -> None:
    errors = run_cli("simulate", "--order", "sjf").stderr
    assert "; order is an option of the policies conservative, dbf, easy, fcfs, " in errors
    assert errors.endswith(": use -o order=sjf\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[policy.easy\n", "run.toml:"),
        ("[polcy.easy]\n", "unknown key 'polcy'; expected tables [policy.NAME]"),
        ("policy = 3\n", "expected a table [policy.easy]"),
        ("[policy]\neasy = 3\n", "expected a table [policy.easy]"),
        ("[policy.easy]\nordre = 'sjf'\n", "unknown option 'ordre' (from run.toml)"),
        ("\xff", "run.toml:"),
    ],
)
def test_bad_configuration_files(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes(content.encode("latin-1"))
    done = run_cli("--policy", "easy", "--config", "run.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_options_take_effect_from_all_sources(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[policy.conservative]\norder = 'sjf'\ncompression = false\n[policy.easy]\n")
    journal = str(tmp_path / "run.pbj")
    arguments = ("--policy", "conservative", "--config", str(tmp_path / "run.toml"), "-o", "order=ljf")
    with Server(*arguments, "--journal", journal) as server, Peer(server.wait_ready()) as peer:
        begin = recording("plain").requests[0]
        peer.ask(
            begin.replace(b'"sched-config":""', rb'"sched-config":"{\"order\":\"widest\",\"assume_walltime\":60}"')
        )
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 0, server.errors
    from pybatsched.session.journal import JournalReader

    assert JournalReader(journal).header["options"] == {
        "order": "ljf",
        "assume_walltime": 60.0,
        "placement": None,
        "compression": False,
    }
    assert run_cli("replay", journal).returncode == 0


def test_replay_with_another_policy_gives_code_7(tmp_path: Path) -> None:
    journal = str(tmp_path / "run.pbj")
    with Server("--policy", "fcfs", "--journal", journal) as server, Peer(server.wait_ready()) as peer:
        for request in recording("plain").requests[:3]:
            peer.ask(request)
        peer.vanish()
        assert server.finish() == 4
    lazy = tmp_path / "lazy.py"
    lazy.write_text("from pybatsched import Policy\nclass Lazy(Policy):\n    def decide(self, now): return ()\n")
    done = run_cli("replay", journal, "--policy", f"{lazy}:Lazy")
    assert done.returncode == 7
    assert "first difference at message" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        "simulate --procs 4 --policy fcfs -w {}",
        "simulate --procs 4 --policy {}.py:Mine -w workload.json",
        "simulate --procs 32 --policy rl -o agent={}.py:mine -w workload.json",
        "metrics {}",
        "report {}",
        "workload lint {}",
        "batsim --link {}",
    ],
)
def test_a_path_that_cannot_be_opened_is_an_input_error(args: str, tmp_path: Path) -> None:
    """A name that is too long is an example of all paths that cannot be opened: forbidden directories, loops."""
    shutil.copy(ROOT / "examples" / "workload.json", tmp_path)
    done = run_cli(*args.format("a" * 300).split(), cwd=tmp_path)
    assert done.returncode == 2
    assert "File name too long" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_internal_error_gives_code_1_and_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_name: str, **_trust: bool) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("pybatsched.policies.registry.find", broken)
    assert cli.main(["policies", "easy"]) == 1
    output = capsys.readouterr().err
    assert "RuntimeError: boom" in output
    assert "this is a bug of pybatsched" in output


@pytest.mark.parametrize(
    "args",
    [
        "serve --policy easy --pol fcfs",
        "simulate --procs 4 --policy easy --pol fcfs",
        "workload stats w.json --js",
        "workload inject w.json deadlines --every 3 --output d.json --le 1h",
        "campaign table study --form csv",
    ],
)
def test_options_cannot_be_abbreviated(args: str, tmp_path: Path) -> None:
    done = run_cli(*args.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert "unrecognized arguments: --" in done.stderr


@pytest.mark.parametrize("command", ["metrics", "report"])
def test_an_output_file_given_instead_of_its_prefix_gets_a_hint(command: str, tmp_path: Path) -> None:
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "-e", "runs/out", "-q")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    for suffix in ("_jobs.csv", "_summary.json", "_state.json"):
        done = run_cli(command, f"runs/out{suffix}", cwd=tmp_path)
        message = f"pybatsched: runs/out{suffix} is a file of a run; give the prefix, `runs/out`\n"
        assert (done.returncode, done.stderr) == (2, message)
