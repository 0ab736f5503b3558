"""Keys: peers without the right ones are rejected; the relay between Batsim and a server with keys."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import zmq
from support.curve_keys import FIRST, WORKLOAD, keys_made_in, schedule, schedule_without_keys, simulate
from support.patience import PATIENCE_MS, PATIENCE_S, no_longer_than, wait_until
from support.places import ROOT
from support.process import Peer, Server, run_cli, run_forked

from pybatsched.core import events as e
from pybatsched.errors import InputError, PeerLostError
from pybatsched.live import keys, relay as relay_module, server
from pybatsched.simulator.external import ExternalScheduler


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keys_made_in(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return schedule_without_keys(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "keys"))


def test_keys_that_cannot_be_written_leave_no_files(tmp_path: Path) -> None:
    done = run_forked("keys", "keys", cwd=tmp_path, largest_file=100)  # enough for its output
    expected = "pybatsched: keys/server.key_secret: cannot be written: File too large\n"
    assert (done.returncode, done.stderr) == (2, expected)
    assert [path for path in (tmp_path / "keys").rglob("*") if path.is_file()] == []
    assert run_cli("keys", "keys", cwd=tmp_path).returncode == 0


@contextlib.contextmanager
def under(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_secret_keys_are_readable_only_by_their_owner(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "keys"
    with under(umask):
        done = run_cli("keys", str(folder))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.key*")}
    assert modes == {"server.key": 0o644, "server.key_secret": 0o600, "client.key": 0o644, "client.key_secret": 0o600}
    assert keys.read_client(folder).server == keys.read_server(folder).own.public


def test_the_key_directory_is_accessible_only_to_its_owner(tmp_path: Path) -> None:
    with under(0):
        keys.make(tmp_path / "keys")
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["server.key", "clients/client.key", "client.key_secret"])
def test_existing_keys_are_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / "clients").mkdir()
    (tmp_path / name).write_text("mine")
    done = run_cli("keys", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path / name} already exists" in done.stderr
    assert [path.read_text() for path in tmp_path.rglob("*.key*")] == ["mine"]


def test_pyzmq_reads_the_key_files(made: Path) -> None:
    from zmq.auth import load_certificate

    pair = keys.read_server(made).own
    assert load_certificate(made / "server.key_secret") == (pair.public, pair.secret)
    assert load_certificate(made / "server.key") == (pair.public, None)
    assert pair.secret.decode() not in repr(pair)


@pytest.mark.parametrize(
    ("name", "pattern", "text", "message"),
    [
        ("server.key_secret", r"(?s).*", "", "expected a public-key and a secret-key of 40 characters each"),
        ("server.key_secret", r"(?s)(.*).{9}", r"\1", "expected a public-key and a secret-key of 40 characters each"),
        (
            "server.key_secret",
            r'(public-key = )".*"',
            rf'\1"{"0" * 40}"',
            "the public-key does not belong to the secret",
        ),
        ("server.key_secret", r'(secret-key = )".*"', r'\1"' + "#" * 40 + '"', "the secret-key is not a Z85 text"),
        ("clients/client.key", r'"(.)', r'"\\', "the public-key is not a Z85 text"),
        ("clients/client.key", r"(?s).*", "\0\xff\n", "expected a public-key of 40 characters and no secret-key"),
        ("clients/client.key", r"public-key", "secret-key", "expected a public-key of 40 characters and no secret-key"),
    ],
)
def test_invalid_key_files_are_rejected(own: Path, name: str, pattern: str, text: str, message: str) -> None:
    path = own / name
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))
    done = run_cli("--policy", "easy", "--curve", str(own), "--endpoint", "tcp://127.0.0.1:*")
    assert done.returncode == 2
    assert f"{path}: {message}" in done.stderr
    assert "-key = " not in done.stderr


def test_a_directory_without_keys_is_an_error(own: Path, tmp_path: Path) -> None:
    done = run_cli("--policy", "easy", "--curve", str(tmp_path / "no"))
    assert (done.returncode, "server.key_secret: cannot be read: No such file" in done.stderr) == (2, True)
    (own / "clients" / "client.key").unlink()
    with pytest.raises(InputError, match=r"found no \*\.key; expected the public key of at least one peer"):
        keys.read_server(own)
    os.mkfifo(own / "clients" / "pipe.key")
    with pytest.raises(InputError, match="expected a public-key"):
        keys.read_server(own)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_key_readable_by_others_is_rejected(own: Path, mode: int) -> None:
    (own / "client.key_secret").chmod(mode)
    done = run_cli("simulate", *WORKLOAD, "--external", "--curve", str(own), "-e", str(own / "out"))
    assert done.returncode == 2
    assert "client.key_secret can be read or written by other users" in done.stderr
    assert not list(own.glob("out*"))


@pytest.mark.parametrize("mode", [0o020, 0o002])
@pytest.mark.parametrize("name", ["", "clients", "clients/client.key"])
def test_only_the_owner_may_change_the_accepted_keys(own: Path, name: str, mode: int) -> None:
    path = own / name
    path.chmod(path.stat().st_mode | mode)
    done = run_cli("--policy", "easy", "--curve", str(own), "--endpoint", "tcp://127.0.0.1:*")
    message = f"pybatsched: {path} can be written by other users, who could add their keys: chmod go-w\n"
    assert (done.returncode, done.stderr) == (2, message)
    path.chmod(path.stat().st_mode & ~0o022)
    assert len(keys.read_server(own).clients) == 1


@pytest.mark.parametrize("name", ["", "server.key"])
def test_a_server_key_writable_by_others_is_rejected_by_the_peer(own: Path, name: str) -> None:
    (own / name).chmod((own / name).stat().st_mode | 0o020)
    with pytest.raises(InputError, match="can be written by other users"):
        keys.read_client(own)


def test_no_keys_are_created_in_a_directory_writable_by_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    done = run_cli("keys", str(tmp_path))
    assert (done.returncode, f"{tmp_path} can be written by other users" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_zeromq_without_curve_is_an_error(monkeypatch: pytest.MonkeyPatch, made: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(zmq, "has", lambda _what: False)
    for args in (("keys", str(tmp_path / "keys")), ("--policy", "easy", "--curve", str(made))):
        done = run_cli(*args)
        assert done.returncode == 2
        assert "was built without CURVE" in done.stderr


def test_curve_without_an_external_scheduler_is_rejected(made: Path, tmp_path: Path) -> None:
    done = run_cli("simulate", *WORKLOAD, "--policy", "easy", "--curve", str(made), cwd=tmp_path)
    assert done.returncode == 2
    assert "--curve: works only with --external" in done.stderr


def test_with_the_right_keys_the_schedule_is_the_same(made: Path, tmp_path: Path, plain: str) -> None:
    with Server("--policy", "easy", "--curve", str(made), endpoint="tcp://0.0.0.0:*") as server:
        endpoint = server.wait_ready().replace("0.0.0.0", "127.0.0.1")
        assert simulate(endpoint, "--curve", str(made), cwd=tmp_path) == (0, "")
        assert server.finish() == 0
        assert "warning" not in server.errors
    assert schedule(tmp_path, "out") == plain
    assert "curve" not in (tmp_path / "out_summary.json").read_text()


def test_a_peer_needs_only_its_secret_and_the_server_key(made: Path, tmp_path: Path) -> None:
    for name in ("client.key_secret", "server.key"):
        shutil.copy(made / name, tmp_path)
    args = ("--policy", "easy", "--curve", str(made), "--allow", "127.0.0.1")
    with Server(*args) as server:
        assert simulate(server.wait_ready(), "--curve", ".", cwd=tmp_path) == (0, "")
        assert server.finish() == 0


def test_sending_without_a_connection_ends_with_an_error() -> None:
    """ZeroMQ closes the connection of a rejected peer; sending on it would wait for ever."""
    # patience: the event that ends the wait never comes, so any time will do
    with ExternalScheduler("ipc:///nobody/is/there", timeout_s=0.1) as scheduler:
        scheduler._socket.disconnect(scheduler.endpoint)
        with no_longer_than(PATIENCE_S), pytest.raises(PeerLostError, match="no scheduler at ipc"):
            scheduler(0.0, (e.SimulationEnds(timestamp=0.0),))


def test_peers_without_a_key_are_rejected_and_the_server_keeps_waiting(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "foreign")
    foreign = tmp_path / "foreign"
    shutil.copy(made / "server.key", foreign)  # it knows the server key, but the server does not know its key
    # patience: the event that ends the wait never comes, so any time will do
    with Server("--policy", "easy", "--curve", str(made), "--first-timeout", "600") as server:
        endpoint = server.wait_ready()
        with Peer(endpoint) as other:
            other.send(FIRST)
            server.wait_until_it_says(r"rejected a peer without a key or with the key of another server")
        # patience: the event that ends the wait never comes, so any time will do
        code, output = simulate(endpoint, "--timeout", "0.5", cwd=tmp_path)  # either side may close it first
        # patience: the event that ends the wait never comes, so any time will do
        assert (code, "rejected the connection (it may need keys" in output or "--timeout 0.5" in output) == (4, True)
        code, output = simulate(endpoint, "--curve", str(foreign), cwd=tmp_path)
        assert (code, "the client key is not in its DIR/clients" in output) == (4, True)
        server.wait_until_it_says(r"rejected a peer whose key is not in DIR/clients")
        assert simulate(endpoint, "--curve", str(made), cwd=tmp_path) == (0, "")
        assert server.finish() == 0


def test_a_server_with_another_key_is_rejected_by_the_peer(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")
    # patience: the event that ends the wait never comes, so any time will do
    with Server("--policy", "easy", "--curve", str(tmp_path / "other"), "--first-timeout", "600") as server:
        # patience: the event that ends the wait never comes, so any time will do
        code, output = simulate(server.wait_ready(), "--curve", str(made), "--timeout", "0.5", cwd=tmp_path)
        assert (code, "its keys may differ from those of --curve" in output) == (4, True)
    # patience: the event that ends the wait never comes, so any time will do
    with Server("--policy", "easy", "--curve", str(tmp_path / "other"), "--first-timeout", "0.1") as server:
        assert server.finish() == 4
        assert "no message from Batsim within" in server.errors


def test_a_peer_with_keys_cannot_use_a_server_without_keys(made: Path, tmp_path: Path) -> None:
    with Server("--policy", "easy") as server:
        # patience: the event that ends the wait never comes, so any time will do
        code, output = simulate(server.wait_ready(), "--curve", str(made), "--timeout", "0.5", cwd=tmp_path)
        assert (code, "--curve" in output) == (4, True)


def test_allow_and_curve_are_both_checked(made: Path, tmp_path: Path) -> None:
    with Server("--policy", "easy", "--curve", str(made), "--allow", "192.0.2.7") as server:
        code, _ = simulate(server.wait_ready(), "--curve", str(made), cwd=tmp_path)
        assert code == 4
        server.wait_until_it_says("rejected a peer at 127.0.0.1: the address is not allowed")


def test_the_batsim_command_can_use_keys(made: Path, tmp_path: Path) -> None:
    with Server("--policy", "easy", "--curve", str(made)) as server:
        platform = str(ROOT / "platforms" / "cluster32.xml")
        args = ("-p", platform, *WORKLOAD[:2], "-s", server.wait_ready(), "--curve", str(made), "-q")
        assert run_cli("batsim", *args, cwd=tmp_path).returncode == 0
        assert server.finish() == 0


class Relay(Server):
    """A running ``pybatsched relay``."""

    def __init__(self, far: str, folder: Path, *more: str) -> None:
        super().__init__("relay", "--to", far, "--curve", str(folder), *more)


def test_a_batsim_without_keys_can_connect_through_the_relay(made: Path, tmp_path: Path, plain: str) -> None:
    with Server("--policy", "easy", "--curve", str(made)) as server, Relay(server.wait_ready(), made) as relay:
        assert simulate(relay.wait_ready(), cwd=tmp_path) == (0, "")
        assert (server.finish(), relay.finish()) == (0, 0)
        assert re.search(r"Batsim has disconnected after \d+ messages", relay.errors)
    assert schedule(tmp_path, "out") == plain


def test_a_waiting_batsim_gets_an_error_when_the_scheduler_is_lost(made: Path) -> None:
    with Server("--policy", "easy", "--curve", str(made)) as server, Relay(server.wait_ready(), made) as relay:
        with Peer(relay.wait_ready()) as peer, Peer(relay.endpoint) as second:
            assert b'"events"' in peer.ask(FIRST)
            assert b"busy with another Batsim" in second.ask(FIRST)
            server.process.kill()
            assert b"disconnected before it replied to message 2" in peer.ask(FIRST)
        assert relay.finish() == 4


def test_a_rejected_relay_reports_it(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")
    shutil.copy(made / "server.key", tmp_path / "other")
    with (
        Server("--policy", "easy", "--curve", str(made)) as server,
        Relay(server.wait_ready(), tmp_path / "other") as relay,
    ):
        assert relay.finish() == 4
        assert "rejected the connection (--curve)" in relay.errors


def test_a_relay_to_a_server_with_other_keys_reports_it(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")
    with (
        Server("--policy", "easy", "--curve", str(tmp_path / "other")) as far,
        # patience: the event that ends the wait never comes, so any time will do
        Relay(far.wait_ready(), made, "--timeout", "5") as relay,
        Peer(relay.wait_ready()) as peer,
    ):
        assert b"keys may differ" in peer.ask(FIRST)  # whether the hang-up, or the time-out, is noticed first
        assert relay.finish() == 4


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("0.0.0.0:* --to tcp://127.0.0.1:1", 2, "expected a local endpoint, because it is not encrypted"),
        ("127.0.0.1:* --to nowhere", 2, "cannot connect to 'nowhere'"),
        ("127.0.0.1:* --to tcp://127.0.0.1:99999", 2, "expected a port from 0 to 65535, found '99999'"),
        # patience: the event that ends the wait never comes, so any time will do
        ("127.0.0.1:* --to tcp://127.0.0.1:1 --first-timeout 0.1", 4, "no message from Batsim"),
    ],
)
def test_a_relay_that_cannot_start_reports_the_reason(made: Path, args: str, code: int, message: str) -> None:
    done = run_cli("relay", "--endpoint", *f"tcp://{args}".split(), "--curve", str(made))
    assert done.returncode == code
    assert message in done.stderr


def test_a_relay_without_a_scheduler_sends_an_error_to_batsim(made: Path) -> None:
    # patience: the event that ends the wait never comes, so any time will do
    with Relay("tcp://127.0.0.1:1", made, "--timeout", "0.5") as relay, Peer(relay.wait_ready()) as peer:
        assert b"no reply to message 1" in peer.ask(FIRST)
        assert relay.finish() == 4


@contextlib.contextmanager
def far_scheduler(made: Path) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """A socket with the keys of a server, and its endpoint: a scheduler whose replies a test gives."""
    with zmq.Context() as context, context.socket(zmq.REP) as far:
        far.setsockopt(zmq.LINGER, 0)
        far.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        far.setsockopt(zmq.CURVE_SERVER, 1)
        far.setsockopt(zmq.CURVE_SECRETKEY, keys.read_server(made).own.secret)
        far.bind("tcp://127.0.0.1:*")
        yield far, far.getsockopt_string(zmq.LAST_ENDPOINT)


def test_a_batsim_that_disconnects_before_its_reply(made: Path) -> None:
    with far_scheduler(made) as (far, endpoint), Relay(endpoint, made, "--timeout", "0") as relay:
        with Peer(relay.wait_ready()) as peer:
            peer.send(FIRST)
            assert far.recv() == FIRST
        assert relay.finish() == 4
        assert "Batsim disconnected before it received the reply to its message 1" in relay.errors


class Passing:
    """A relay in a thread, to a scheduler whose replies a test gives: the test sets its timeout after the last message.

    So no machine is too slow for it. `error` is what ended it, if it did not end well.
    """

    def __init__(self, made: Path, far: zmq.Socket[bytes], endpoint: str) -> None:
        self.relay = relay_module.Relay("tcp://127.0.0.1:*", endpoint, keys.read_client(made), 0, 0)
        self.error: PeerLostError | None = None
        self._far = far
        self._endpoints: SimpleQueue[str] = SimpleQueue()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()
        self.endpoint = self._endpoints.get(timeout=PATIENCE_S)

    def _pass_on(self) -> None:
        try:
            self.relay.run(self._endpoints.put)
        except PeerLostError as error:
            self.error = error

    def exchange(self, peer: Peer) -> None:
        peer.send(FIRST)
        self._far.recv()
        self._far.send(b"{}")
        assert peer.receive() == b"{}"

    def finish(self) -> PeerLostError | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.error


def test_a_silent_batsim_times_out_and_gets_an_error_later(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", PATIENCE_S)
    is_given_up = threading.Event()

    def refuse(socket: zmq.Socket[bytes], peer: bytes, error_reply: bytes) -> None:
        is_given_up.set()
        server.await_and_refuse(socket, peer, error_reply)

    monkeypatch.setattr(relay_module, "await_and_refuse", refuse)
    with far_scheduler(made) as (far, endpoint):
        passing = Passing(made, far, endpoint)
        with Peer(passing.endpoint) as peer:
            passing.exchange(peer)
            # patience: the event that ends the wait never comes, so any time will do
            passing.relay._timeout_s = 0.1
            assert is_given_up.wait(PATIENCE_S)
            assert b"pybatsched relay: no message from Batsim for" in peer.ask(FIRST)
        message = (
            r"no message from Batsim for \d+\.\d s \(timeout [0-9.]+\), after the reply to message 1; it was stopped"
        )
        assert re.match(message, str(passing.finish()))


@pytest.mark.parametrize("limit_s", [0, 0.1])
def test_a_lost_batsim_is_noticed_while_another_connection_is_open(made: Path, limit_s: float) -> None:
    with far_scheduler(made) as (far, endpoint):
        passing = Passing(made, far, endpoint)
        with Peer(passing.endpoint) as peer:
            passing.exchange(peer)
            other = Peer(passing.endpoint)
            assert b"busy with another Batsim" in other.ask(FIRST)
        with other:
            wait_until(lambda: len(passing.relay._near_watch._open) == 1)
            assert b"busy with another Batsim" in other.ask(FIRST)  # so ZeroMQ has done with the other one
            passing.relay._timeout_s = limit_s
            assert passing.finish() is None
