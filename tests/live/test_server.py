"""The real server process on a real socket: recorded conversations, invalid messages, lost or silent peers."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import pytest
import zmq
from support.patience import PATIENCE_MS, PATIENCE_S, wait_until
from support.process import SCRIPTED, SIGNALS, Peer, Server, run_cli
from support.recordings import Recording, recording, recordings, structure_error

from pybatsched import cli
from pybatsched.cli import serve as serve_command
from pybatsched.errors import Interrupted, PeerLostError, quantity
from pybatsched.live import connection, server
from pybatsched.live.connection import Watch, receive
from pybatsched.protocol import v4
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for

ALL = recordings()
WHOLE = [r for r in ALL if r.ends and r.exit_code == 0]
BROKEN_OFF = [r for r in ALL if r not in WHOLE and r.is_readable]

# What a scheduler cannot know: only Batsim's abort shows it.
UNSEEN = {
    "bad-query-without-energy": "whether -E was given is not in SIMULATION_BEGINS",
    "bad-state-without-energy": "the same",
    "bad-unknown-pstate": "the number of pstates is not in SIMULATION_BEGINS",
    "bad-events-when-ending": "policies are not asked any more when the simulation ends",
    "bad-register-existing-id": "static jobs are not known before they are submitted",
    "bad-deadlock": "nothing illegal was said: jobs were left waiting",
    "bad-deadlock-one-left": "the same",
    "bad-registration-never-finished": "the same",
}


def scripted(recording: Recording, journal: Path) -> Server:
    conversation = recording.directory / "conversation.jsonl"
    return Server("--policy", SCRIPTED, "-o", f"conversation={conversation}", "--journal", str(journal))


def same(request: bytes, reply: bytes, recorded: bytes) -> bool:
    if b"SIMULATION_ENDS" in request:  # nothing can be decided any more, so the policy is not asked
        return bool(json.loads(reply)["events"] == [])
    return bool(json.loads(reply) == json.loads(recorded))


@pytest.mark.parametrize("recording", WHOLE, ids=lambda r: r.name)
def test_a_recorded_conversation_is_replayed_to_its_end(recording: Recording, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with scripted(recording, journal) as server, Peer(server.wait_ready()) as peer:
        for request, recorded in zip(recording.requests, recording.replies, strict=True):
            reply = peer.ask(request)
            assert same(request, reply, recorded)
        assert server.finish() == 0, server.errors
    replayed = replay(JournalReader(journal), SCRIPTED)
    assert (replayed.n_same, replayed.difference) == (len(recording.requests), None)


@pytest.mark.parametrize("recording", BROKEN_OFF, ids=lambda r: r.name)
def test_replies_that_would_abort_batsim_are_not_sent(recording: Recording, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with scripted(recording, journal) as server, Peer(server.wait_ready()) as peer:
        for request, recorded in zip(recording.requests, recording.replies, strict=True):
            reply = peer.ask(request)
            if structure_error(reply.decode()):
                break
            assert same(request, reply, recorded)
        caught = bool(structure_error(reply.decode()))
        peer.vanish()
        code = server.finish()
    if recording.name in UNSEEN:
        assert not caught
        assert code == (0 if recording.ends else 4)
    else:
        assert (caught, code) == (True, 6), server.errors
        assert "broke the rule" in server.errors
    assert replay(JournalReader(journal), SCRIPTED).difference is None


def first_messages(n: int) -> list[bytes]:
    return recording("kill-race-same-instant").requests[:n]


BROKEN = {
    "not JSON": (b"hello", "expected a JSON object"),
    "truncated": (b'{"now":1.0,"events":[{"timestamp":1.0,', "expected a JSON object"),
    "empty": (b"", "expected a JSON object"),
    "not UTF-8": (b'{"now":1.0,"events":[],"x":"\xff\xfe"}', "expected JSON in UTF-8"),
    "no now": (b'{"events":[]}', "now: the message has no 'now'"),
    "no events": (b'{"now":1.0}', "events: the message has no 'events'"),
    "deep": (b"[" * 200_000, "expected a JSON object"),
    "unknown job": (
        b'{"now":1.0,"events":[{"timestamp":1.0,"type":"JOB_COMPLETED","data":{"job_id":"w0!x"}}]}',
        "events[0].data.job_id: unknown job w0!x",
    ),
    "late event": (
        b'{"now":1.0,"events":[{"timestamp":9.0,"type":"REQUESTED_CALL","data":{}}]}',
        "events[0].timestamp",
    ),
    "decreasing time": (b'{"now":-5.0,"events":[]}', "now: time goes back"),
    "nearly Batsim 5": (b"\x04\x00\x00\x00abc", "expected a JSON object"),
    "Batsim 5, not in UTF-8": (b"\x01\x00\x00\x00\xff", "UTF-8"),
    "too large": (b"x" * 1_100_000, "1100000 bytes; expected at most 1048576"),
    "far too large": (b"x" * 9_000_000, "9000000 bytes; expected at most 1048576"),
}


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_messages_end_the_run_with_code_3(case: str, stage: int, tmp_path: Path) -> None:
    raw, expected = BROKEN[case]
    if stage == 0 and case in {"unknown job", "late event"}:
        expected = "expected SIMULATION_BEGINS first"
    if stage and case == "Batsim 5, not in UTF-8":
        expected = "expected a JSON object"  # only the first message may be a greeting
    journal = tmp_path / "run.pbj"
    arguments = ("--policy", "easy", "--journal", str(journal), "--max-message", "1")
    with Server(*arguments) as server, Peer(server.wait_ready()) as peer:
        for request in first_messages(stage):
            peer.ask(request)
        error_reply = peer.ask(raw)
        assert server.finish() == 3, server.errors
    assert structure_error(error_reply.decode()), "Batsim must not take the error_reply for an answer"
    assert f"message {stage + 1}" in server.errors
    assert expected in server.errors
    assert "Traceback" not in server.errors
    kept = list(JournalReader(journal).exchanges())[-1]
    assert raw.startswith(kept.request)
    assert kept.error is not None
    if not case.endswith("too large"):
        assert kept.request == raw
        assert replay(JournalReader(journal)).difference is None


@pytest.mark.parametrize("stage", [0, 1])
def test_a_multipart_message_is_rejected(stage: int, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with Server("--policy", "easy", "--journal", str(journal)) as server, Peer(server.wait_ready()) as peer:
        for request in first_messages(stage):
            peer.ask(request)
        peer.ask_parts(b"{", b"}")
        assert server.finish() == 3
    assert f"pybatsched: message {stage + 1}: received a message in 2 parts; expected one\n" in server.errors
    assert list(JournalReader(journal).exchanges())[-1].request == b"{}"


def test_a_second_start_does_not_touch_the_journal_of_the_first(tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with Server("--policy", "easy", "--journal", str(journal)) as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("plain").requests[0])
        before = journal.read_bytes()
        with Server("--policy", "easy", "--journal", str(journal), endpoint=server.endpoint) as second:
            assert second.finish() == 2
        assert journal.read_bytes() == before


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_lost_peer_is_detected_without_a_timeout(stage: int, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with Server("--policy", "easy", "--timeout", "0", "--journal", str(journal)) as server:
        with Peer(server.wait_ready()) as peer:
            for request in recording("plain").requests[:stage]:
                peer.ask(request)
        assert server.finish() == 4
    assert "closed its connection" in server.errors
    assert f"after message {stage}" in server.errors
    assert "known causes" in server.errors
    assert run_cli("replay", str(journal)).returncode == 0


def test_a_peer_that_disconnects_before_its_reply_is_detected() -> None:
    with Server("--policy", "easy", "--timeout", "0", "-v") as server:
        peer = Peer(server.wait_ready())
        peer.send(recording("plain").requests[0])
        server.wait_until_it_says("<- SimulationBegins")
        peer.vanish()
        assert server.finish() == 4


@contextmanager
def idle(endpoint: str) -> Iterator[None]:
    """A client that is connected and never sends a message."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        events = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        socket.connect(endpoint)
        assert events.poll(PATIENCE_MS)
        yield
        socket.disable_monitor()
        events.close()


PEER = """
import os, signal, sys, zmq
socket = zmq.Context().socket(zmq.REQ)
socket.connect(sys.argv[1])
socket.send(os.fsencode(sys.argv[2]))
socket.recv()
print("replied", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("kind", ["tcp", "ipc"])
def test_a_killed_peer_is_detected_while_other_clients_are_connected(kind: str, tmp_path: Path) -> None:
    place = f"ipc://{tmp_path}/socket" if kind == "ipc" else "tcp://127.0.0.1:*"
    with Server("--policy", "easy", "--timeout", "0", endpoint=place) as server, idle(server.wait_ready()):
        command = [sys.executable, "-c", PEER, server.endpoint, first_messages(1)[0].decode()]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as peer:
            assert peer.stdout is not None
            assert peer.stdout.readline() == b"replied\n"
            with idle(server.endpoint):
                peer.kill()
                assert server.finish() == 4
    assert "closed its connection after message 1" in server.errors


def test_a_lost_peer_is_detected_while_a_second_batsim_is_connected() -> None:
    begin = recording("plain").requests[0]
    with Server("--policy", "easy", "--timeout", "0") as server, Peer(server.wait_ready()) as two:
        with Peer(server.endpoint) as one:
            one.ask(begin)
            assert b"busy with another Batsim" in two.ask(begin)
        assert server.finish() == 4


def test_a_new_connection_with_the_file_descriptor_of_the_peer_is_not_the_peer() -> None:
    with Server("--policy", "easy", "--timeout", "0") as server:
        with Peer(server.wait_ready()) as peer:
            peer.ask(first_messages(1)[0])
        with idle(server.endpoint):  # its number is the lowest that is free
            assert server.finish() == 4


def test_a_peer_with_an_old_zeromq_is_watched_too() -> None:
    """In ZMTP 1.0 the connection of a message is unknown: all connections are watched."""
    request = first_messages(1)[0]
    with Server("--policy", "easy", "--timeout", "0") as server:
        port = int(server.wait_ready().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer:
            peer.sendall(b"\x01\x00" + b"\x01\x01" + b"\xff" + (len(request) + 1).to_bytes(8) + b"\x00" + request)
            reply = b""
            while b'"events"' not in reply:
                reply += peer.recv(1024)
        assert server.finish() == 4
    assert "closed its connection after message 1" in server.errors


@pytest.mark.parametrize("has_keys", [False, True])
def test_which_connection_is_watched(has_keys: bool) -> None:
    public, secret = zmq.curve_keypair()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, closing(Watch(router)) as watch:
        if has_keys:
            router.curve_server, router.curve_secretkey = True, secret
        router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        port = router.bind_to_random_port("tcp://127.0.0.1")

        def other_client() -> socket.socket:
            return socket.create_connection(("127.0.0.1", port))

        @contextmanager
        def connected_peer() -> Iterator[None]:
            with context.socket(zmq.REQ) as peer:
                peer.setsockopt(zmq.LINGER, 0)
                if has_keys:
                    peer.curve_serverkey, (peer.curve_publickey, peer.curve_secretkey) = public, zmq.curve_keypair()
                peer.connect(f"tcp://127.0.0.1:{port}")
                peer.send(b"hello")
                sender, connection, parts = receive(router)
                assert parts == [b"", b"hello"]
                watch.received(sender, connection)
                yield

        assert watch.is_gone()
        with other_client():
            wait_until(lambda: not watch.is_gone())  # it might be the peer
            with connected_peer():
                assert not watch.is_gone()
            wait_until(watch.is_gone)
            with other_client():  # its connection gets the number of the peer's
                wait_until(lambda: len(watch._open) == 2 or not watch.is_gone())
                assert watch.is_gone()
                with connected_peer():
                    assert not watch.is_gone()
        with connected_peer():
            wait_until(lambda: watch.is_gone() or len(watch._open) == 1)
            assert not watch.is_gone()


@contextmanager
def messages_sent_at_once(endpoint: str, requests: list[bytes]) -> Iterator[None]:
    """A peer that sends all its messages before the first reply, and then is silent.

    So there is no pause between them that the server could take for silence, however slow this machine is.
    """
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        socket.connect(endpoint)
        for request in requests:
            socket.send_multipart((b"", request))
        for _ in requests:
            socket.recv_multipart()
        yield


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_silent_peer_is_reported(stage: int, tmp_path: Path) -> None:
    conversation = recording("kill-race-same-instant").directory / "conversation.jsonl"
    journal = tmp_path / "run.pbj"
    policy = ("--policy", SCRIPTED, "-o", f"conversation={conversation}") if stage == 3 else ("--policy", "easy")
    requests = recording("kill-race-same-instant").requests[:stage]
    # patience: the event that ends the wait never comes, so any time will do
    arguments = (*policy, "--timeout", "1", "--journal", str(journal))
    with Server(*arguments) as server, messages_sent_at_once(server.wait_ready(), requests):
        assert server.finish() == 4
    # patience: the event that ends the wait never comes, so any time will do
    assert "(--timeout 1)" in server.errors
    if stage == 3:
        assert "0 running, 0 waiting" in server.errors
    if stage == 2:
        assert "running: w0!a since 0.0 on 0, expected to end at 60.0" in server.errors
        assert "3 running, 0 waiting" in server.errors


def test_the_report_of_a_silent_peer_names_waiting_jobs() -> None:
    jobs = b",".join(
        b'{"timestamp":0,"type":"JOB_SUBMITTED","data":{"job_id":"w0!%d","job":{"res":4,"walltime":60}}}' % i
        for i in range(14)
    )
    requests = [recording("plain").requests[0], b'{"now":0,"events":[' + jobs + b"]}"]
    # patience: the event that ends the wait never comes, so any time will do
    with Server("--policy", "easy", "--timeout", "1") as server, messages_sent_at_once(server.wait_ready(), requests):
        assert server.finish() == 4
    assert "waiting: w0!1 since 0.0, requests 4 processors" in server.errors
    assert "waiting: and 3 more" in server.errors


def test_the_timeout_does_not_apply_before_the_first_message() -> None:
    # patience: counted from the first message, which is the last
    with Server("--policy", "easy", "--timeout", "0.1") as server, Peer(server.wait_ready()) as peer:
        # patience: nothing must happen meanwhile; a shorter time proves less
        time.sleep(0.5)
        assert not structure_error(peer.ask(recording("plain").requests[0]).decode())


def test_timeout_0_waits_for_ever() -> None:
    with Server("--policy", "easy", "--timeout", "0") as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("plain").requests[0])
        # patience: nothing must happen meanwhile; a shorter time proves less
        time.sleep(0.5)
        assert not structure_error(peer.ask(recording("plain").requests[1]).decode())


@pytest.mark.parametrize("signum", SIGNALS)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_signals_end_the_server_and_the_journal_is_complete(signum: signal.Signals, stage: int, tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with Server("--policy", "easy", "--journal", str(journal)) as server, Peer(server.wait_ready()) as peer:
        for request in first_messages(stage):
            peer.ask(request)
        server.send_signal(signum)
        assert server.finish() == SIGNALS[signum]
    assert "Traceback" not in server.errors
    reader = JournalReader(journal)
    assert len(list(reader.exchanges())) == stage
    assert reader.note == "the run was interrupted"
    replayed = run_cli("replay", str(journal))
    if stage:
        assert (replayed.returncode, f"identical: {quantity(stage, 'message')}" in replayed.stdout) == (0, True)
    else:
        assert (replayed.returncode, "identical" in replayed.stdout) == (2, False)  # nothing was compared


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with Server("--policy", "easy", endpoint=f"tcp://127.0.0.1:{port}") as server:
            assert server.finish() == 2
    assert "Address already in use (is another scheduler running?)" in server.errors


@pytest.mark.parametrize("endpoint", ["tcp://nowhere", "http://x", "tcp://127.0.0.1:99999999"])
def test_bad_endpoints(endpoint: str) -> None:
    with Server("--policy", "easy", endpoint=endpoint) as server:
        assert server.finish() == 2
    assert f"cannot bind to {endpoint}" in server.errors


def test_ipc_works(tmp_path: Path) -> None:
    with Server("--policy", "fcfs", endpoint=f"ipc://{tmp_path}/socket") as server, Peer(server.wait_ready()) as peer:
        for request in recording("plain").requests[:1]:
            assert v4.decode_decisions(peer.ask(request)).items == ()
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 0


def test_the_default_endpoint_is_this_machine_only() -> None:
    from pybatsched.live import DEFAULT_ENDPOINT

    assert DEFAULT_ENDPOINT == "tcp://127.0.0.1:28000"


def test_verbose_shows_the_messages() -> None:
    with Server("--policy", "fcfs", "-v") as server, Peer(server.wait_ready()) as peer:
        for request in recording("requeue-no-ack").requests[:2]:
            peer.ask(request)
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        server.finish()
    assert "  <- SimulationBegins 4 4 0" in server.errors
    assert "  -> Notify registration_finished   # this policy registers no jobs" in server.errors
    assert "t=0\n  <- JobSubmitted w0!long\n  -> ExecuteJob w0!long 0-2   # head of the queue\n" in server.errors


def test_the_summary_shows_how_jobs_ended_and_why_some_were_rejected() -> None:
    job = b'{"timestamp":0,"type":"JOB_SUBMITTED","data":{"job_id":"w0!%d","job":{"res":%d}}}'
    with Server("--policy", "conservative") as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("plain").requests[0])
        peer.ask(b'{"now":0,"events":[' + b",".join(job % (i, n) for i, n in enumerate((9, 8, 1))) + b"]}")
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 0, server.errors
    assert "3 jobs (3 rejected) in 3 messages" in server.errors
    assert "2 rejected: asks for 9 processors; the platform has 4 (the first of them)" in server.errors
    assert "1 rejected: has neither walltime nor estimate" in server.errors


def test_jobs_left_over_at_the_end_give_code_5() -> None:
    with Server("--policy", "easy") as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("plain").requests[0])
        peer.ask(
            b'{"now":0,"events":[{"timestamp":0,"type":"JOB_SUBMITTED","data":{"job_id":"w0!a","job":{"res":1}}}]}'
        )
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 5
    assert "1 job unfinished: w0!a (running)" in server.errors


def test_a_second_batsim_on_the_same_endpoint_is_rejected_and_the_first_continues() -> None:
    begin = recording("plain").requests[0]
    with Server("--policy", "easy") as server, Peer(server.wait_ready()) as one, Peer(server.endpoint) as two:
        one.ask(begin)
        assert b"busy with another Batsim" in two.ask(begin)
        one.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 0, server.errors


def test_a_second_begin_of_the_same_peer_is_an_error() -> None:
    begin = recording("plain").requests[0]
    with Server("--policy", "easy") as server, Peer(server.wait_ready()) as peer:
        peer.ask(begin)
        peer.ask(begin)
        assert server.finish() == 3
    assert "second SIMULATION_BEGINS" in server.errors


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.0\r\n\r\n", b"\x01\x00\x05\x00junk", bytes(range(256)), b""])
def test_bytes_that_are_not_a_message_are_ignored(junk: bytes) -> None:
    def stray(endpoint: str) -> None:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2]))) as connection:
                connection.sendall(junk)

    with Server("--policy", "easy") as server, Peer(server.wait_ready()) as peer:
        stray(server.endpoint)
        peer.ask(recording("plain").requests[0])
        stray(server.endpoint)
        peer.ask(b'{"now":1,"events":[{"timestamp":1,"type":"SIMULATION_ENDS","data":{}}]}')
        assert server.finish() == 0, server.errors


BROKEN_POLICY = """
from pybatsched import Policy
class Bad(Policy):
    def on_begin(self, cluster):
        self.jobs = []
    def on_job_submitted(self, job, now):
        self.jobs.append(job)
        {0}
    def decide(self, now):
        {1}
        return ()
"""


@pytest.mark.parametrize(
    ("hook", "decide", "expected"),
    [
        ("1/0", "pass", "on_job_submitted raised ZeroDivisionError"),
        ("pass", "raise SystemExit(0)", "decide raised SystemExit"),
        ("pass", "return [job.bad for job in self.jobs]", "decide raised AttributeError"),
        (
            "pass",
            "return 7",
            (
                "broke the rule 'well-formed': decide must return an iterable of decisions, such as a list "
                "or a generator, or None; it returned int: 7\n"
            ),
        ),
        ("pass", "return [7] if self.jobs else []", "known decision"),
    ],
)
def test_a_failing_policy_gives_code_6_and_an_error_reply(
    hook: str, decide: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.py"
    path.write_text(BROKEN_POLICY.format(hook, decide))
    with Server("--policy", f"{path}:Bad") as server, Peer(server.wait_ready()) as peer:
        for request in recording("plain").requests[:3]:
            error_reply = peer.ask(request)
            if structure_error(error_reply.decode()):
                break
        assert server.finish() == 6
    assert expected in server.errors
    assert str(path) in server.errors
    assert "Traceback" not in server.errors
    assert structure_error(error_reply.decode())


def test_a_feature_missing_in_batsim_is_reported_with_its_option(tmp_path: Path) -> None:
    path = tmp_path / "needy.py"
    path.write_text(
        "from pybatsched import BatsimFeature, Policy\n"
        "class Needy(Policy):\n    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})\n"
        "    def decide(self, now): return ()\n"
    )
    with Server("--policy", f"{path}:Needy") as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("plain").requests[0])
        assert server.finish() == 2
    assert "needs Batsim to be started with --enable-dynamic-jobs" in server.errors


def test_options_from_batsim_are_checked_when_they_come() -> None:
    with Server("--policy", "fcfs") as server, Peer(server.wait_ready()) as peer:
        peer.ask(recording("sched-config").requests[0])
        assert server.finish() == 2
    assert (
        "policy fcfs: unknown option 'n' (from Batsim's --sched-cfg); expected one of: order, assume_walltime, "
        "placement, predict, correct" in server.errors
    )


@pytest.mark.parametrize("has_left", [True, False])
def test_a_lost_peer_is_detected_while_a_second_peer_keeps_sending(has_left: bool) -> None:
    """The second peer leaves no pause of silence. The first one leaves, or stays and sends nothing."""
    begin = recording("plain").requests[0]
    with (
        Server("--policy", "easy", "--timeout", "0" if has_left else "1") as server,
        Peer(server.wait_ready()) as one,
        zmq.Context() as context,
        context.socket(zmq.REQ) as two,
    ):
        one.ask(begin)
        if has_left:
            one.vanish()
        two.setsockopt(zmq.LINGER, 0)
        two.connect(server.endpoint)
        deadline = time.monotonic() + PATIENCE_S
        is_answered = True
        # patience: a limit of PATIENCE_S
        while is_answered and time.monotonic() < deadline:
            two.send(begin)
            # patience: nothing must happen meanwhile; a shorter time proves less
            is_answered = bool(two.poll(1000)) and b"busy with another Batsim" in two.recv()
            # patience: the pause between two polls
            time.sleep(0.02)
        assert not is_answered, "the server still answers"
        assert server.finish() == 4
    assert ("closed its connection" if has_left else "no message for") in server.errors


class Served:
    """EASY on a real socket, in a thread that gets a signal when a test sends it: `look` raises it.

    `watch` knows whether the peer is connected, and `ended_by` is what ended it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
        monkeypatch.setattr(server, "Watch", self._watching)
        self.session = Session(plan_for("easy"))
        self.watch: Watch
        self.ended_by: BaseException | None = None
        self._endpoints: SimpleQueue[str] = SimpleQueue()
        self._options = server.ServerOptions("tcp://127.0.0.1:*", timeout_s=0, look=look)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _watching(self, socket: zmq.Socket[bytes], on_wrong_keys: Callable[[], None] | None) -> Watch:
        self.watch = Watch(socket, on_wrong_keys)
        return self.watch

    def _serve(self) -> None:
        try:
            server.serve(self.session, self._options, self._endpoints.put)
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.ended_by = error

    def start(self) -> str:
        """Serve. Return the endpoint."""
        self._thread.start()
        return self._endpoints.get(timeout=PATIENCE_S)

    def finish(self) -> BaseException | None:
        """Wait for the end. Return what ended it."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.ended_by


def test_a_stop_after_a_lost_batsim_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose stops the scheduler as soon as Batsim has ended, before the scheduler would notice."""

    def stop_when_it_has_left() -> None:
        if served.session.n_messages == 2 and served.watch.is_gone():
            raise Interrupted(signal.SIGTERM)

    served = Served(monkeypatch, stop_when_it_has_left)
    with Peer(served.start()) as peer:
        for request in recording("plain").requests[:2]:
            peer.ask(request)
    error = served.finish()
    assert isinstance(error, PeerLostError)
    assert error.exit_code == 4
    assert "after message 2, without SIMULATION_ENDS, and signal 15 stops the scheduler" in str(error)
    assert "known causes" in str(error)


def test_a_batsim_that_disconnects_after_the_signal_was_not_lost_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose stops both at once, while the policy decides: Batsim gets the reply, and may disconnect quickly."""
    reply = connection.send

    def reply_and_see_it_leave(socket: zmq.Socket[bytes], peer: bytes, text: bytes) -> None:
        reply(socket, peer, text)
        if structure_error(text.decode()):
            wait_until(served.watch.is_gone)

    def stop(_raw: bytes) -> NoReturn:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(server, "send", reply_and_see_it_leave)
    served = Served(monkeypatch, lambda: None)
    monkeypatch.setattr(served.session, "handle", stop)
    with Peer(served.start()) as peer:
        assert structure_error(peer.ask(recording("plain").requests[0]).decode())
    error = served.finish()
    assert isinstance(error, Interrupted)
    assert error.signum == signal.SIGTERM


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_request_right_after_the_signal_gets_a_reply(signum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", PATIENCE_S)  # right after is when this machine comes to it
    wanted, came = threading.Event(), threading.Event()

    def stop_when_wanted() -> None:
        if wanted.is_set():
            came.set()
            raise Interrupted(signum)

    served = Served(monkeypatch, stop_when_wanted)
    with Peer(served.start()) as peer:
        peer.ask(recording("plain").requests[0])
        wanted.set()
        assert came.wait(PATIENCE_S)
        assert structure_error(peer.ask(recording("plain").requests[1]).decode())
        error = served.finish()
    assert isinstance(error, Interrupted)
    assert error.signum == signum


def test_a_signal_after_the_end_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve_then_stop(session: Session, _options: object, _ready: object, _refused: object) -> NoReturn:
        FakeBatsim(Workload().job("a", n=1, s=5), 2).run(session.handle)
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", serve_then_stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 0
    assert "simulation ended at 5.0: 1 job" in capsys.readouterr().err


def test_a_signal_before_the_end_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_session: Session, _options: object, _ready: object, _refused: object) -> NoReturn:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 143
