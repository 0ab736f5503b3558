"""Access to a server: addresses, options of the peer, and files named by a journal."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.process import Peer, Server, run_cli
from support.recordings import recording

from pybatsched.live.access import Authenticator, is_wide
from pybatsched.live.keys import Pair, ServerKeys

FIRST = recording("plain").requests[0]
MINE = """
from pybatsched import ExecuteJob, Policy
class Mine(Policy):
    def decide(self, now):
        return []
"""


@pytest.mark.parametrize(
    ("endpoint", "wide"),
    [
        ("tcp://127.0.0.1:28000", False),
        ("tcp://[::1]:28000", False),
        ("ipc:///tmp/socket", False),
        ("tcp://0.0.0.0:28000", True),
        ("tcp://[::]:28000", True),
        ("tcp://192.0.2.7:28000", True),
        ("tcp://eth0:28000", True),
    ],
)
def test_which_endpoints_are_reachable_from_other_machines(endpoint: str, wide: bool) -> None:
    assert is_wide(endpoint) == wide


def test_a_server_reachable_from_other_machines_warns() -> None:
    with Server("--policy", "easy", endpoint="tcp://0.0.0.0:*") as server:
        server.wait_ready()
        assert "can be reached from other machines, and the first peer is accepted as Batsim" in server.errors
    with Server("--policy", "easy") as server:
        server.wait_ready()
        assert "warning" not in server.errors
    with Server("--policy", "easy", "--allow", "127.0.0.1", endpoint="tcp://0.0.0.0:*") as server:
        server.wait_ready()
        assert "warning" not in server.errors


def test_only_allowed_addresses_are_accepted() -> None:
    with Server("--policy", "easy", "--allow", "127.0.0.1") as server, Peer(server.wait_ready()) as peer:
        assert b"events" in peer.ask(FIRST)


def test_other_addresses_are_rejected_and_logged() -> None:
    with Server("--policy", "easy", "--allow", "192.0.2.7") as server, Peer(server.wait_ready()) as peer:
        peer.send(FIRST)
        server.wait_until_it_says(r"rejected a peer at 127.0.0.1: the address is not allowed")
        assert server.errors.count("rejected a peer") == 1


def test_the_log_of_rejected_addresses_is_limited_and_missing_keys_are_still_logged() -> None:
    messages: list[str] = []
    guard = Authenticator(["192.0.2.7"], ServerKeys(Pair(b"", b""), {}), messages.append)
    for number in [*range(300)] * 2:
        denied = f"DENIED (not in allow list) address=198.51.100.{number}"
        assert not guard._read_log(logging.makeLogRecord({"msg": denied}))
    assert len(messages) == 100
    for _ in range(2):
        assert not guard.callback("", b"key")
        guard.no_key()
    assert messages[100:] == [
        "rejected a peer whose key is not in DIR/clients",
        "rejected a peer without a key or with the key of another server",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--allow", "here"], "expected an IP address such as 192.0.2.7, found 'here'"),
        (["--allow", "192.0.2.7", "--endpoint", "ipc:///tmp/x"], "--allow: expected a tcp:// endpoint"),
    ],
)
def test_invalid_addresses_are_rejected(args: list[str], message: str) -> None:
    done = run_cli("--policy", "easy", *args)
    assert done.returncode == 2
    assert message in done.stderr


def test_with_fixed_options_the_peer_cannot_set_options() -> None:
    request = FIRST.replace(b'"sched-config":""', b'"sched-config":"{\\"order\\": \\"sjf\\"}"')
    assert request != FIRST
    with Server("--policy", "easy", "--fixed-options") as server, Peer(server.wait_ready()) as peer:
        assert b"expected nothing there (fixed_options)" in peer.ask(request)
        assert server.finish() == 2
    assert "Batsim's --sched-cfg is" in server.errors
    with Server("--policy", "easy", "--fixed-options", "-o", "order=sjf") as server, Peer(server.wait_ready()) as peer:
        assert b"events" in peer.ask(FIRST)


def test_a_journal_runs_the_files_that_it_names_only_if_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "w.json").write_text('{"nb_res": 1, "jobs": [], "profiles": {}}')
    args = ("--procs", "1", "-w", "w.json", "--policy", "mine.py:Mine", "--journal", "j.pbj", "--allow-empty", "-q")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    (tmp_path / "mine.py").write_text("raise SystemExit('it was run')\n" + MINE)
    done = run_cli("replay", "j.pbj", cwd=tmp_path)
    assert done.returncode == 2
    assert "use --trust if the journal is your own" in done.stderr
    assert "it was run" in run_cli("replay", "j.pbj", "--trust", cwd=tmp_path).stderr
    (tmp_path / "mine.py").write_text(MINE)
    assert run_cli("replay", "j.pbj", "--trust", cwd=tmp_path).returncode == 0
    assert "unknown job" in run_cli("explain", "j.pbj", "w0!a", "--trust", cwd=tmp_path).stderr
