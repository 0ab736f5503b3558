"""A session with Batsim 5: its journal is replayed and explained, and unsupported decisions are errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.recordings import recordings5

import pybatsched
from pybatsched.core import decisions as d
from pybatsched.core.policy import Policy
from pybatsched.errors import InputError, PolicyError, RemoteProtocolError
from pybatsched.protocol.v5_handshake import Features, Hello, read_hello, write_greeting, write_hello
from pybatsched.session.explain import explain, job_histories
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.session.waits import waits_of
from pybatsched.testing import FakeBatsim, Workload, plan_for

CROWDED = (
    Workload()
    .job("a", n=4, s=100, at=0, walltime=200.0)
    .job("u", n=4, s=10, at=5, walltime=20.0, urgent=True)
    .job("b", n=1, s=10, at=6, walltime=20.0)
)


def journalled(path: Path, policy: str | type[Policy], workload: Workload, **options: Any) -> FakeBatsim:
    """Run a policy for Batsim 5 with a journal."""
    session = Session(plan_for(policy, **options), journal=JournalWriter(path), checked=True)
    with session.closing_journal():
        return FakeBatsim(workload, 4, batsim=5).run(session.handle)


def test_the_hello_requests_the_features_of_the_policy() -> None:
    hello = read_hello(Session(plan_for("easy")).handle(write_greeting("")))
    assert hello == Hello("pybatsched", pybatsched.__version__, Features(forward_profiles_on_job_submission=True))
    hello = read_hello(Session(plan_for("ujfb")).handle(write_greeting("")))
    assert hello.features == Features(dynamic_registration=True, forward_profiles_on_simulation_begins=True)


def test_options_come_with_the_greeting() -> None:
    fake = FakeBatsim(CROWDED, 4, {"sched-config": '{"order": "sjf"}'}, batsim=5)
    session = Session(plan_for("fcfs"))
    fake.run(session.handle)
    assert session.batsim == 5
    assert session.engine.policy.options.model_dump()["order"] == "sjf"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("no JSON", "the text behind Batsim's -s ENDPOINT is not a JSON object"),
        ('{"policy": "easy"}', "requests policy 'easy'"),
        ('{"ordre": "sjf"}', r"unknown option 'ordre' .from the text behind Batsim's -s ENDPOINT"),
    ],
)
def test_wrong_options_name_their_source(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        FakeBatsim(CROWDED, 4, {"sched-config": text}, batsim=5).run(Session(plan_for("fcfs")).handle)


@pytest.mark.parametrize("policy", ["easy", "ujfb", "redirection"])
def test_a_journal_is_replayed(policy: str, tmp_path: Path) -> None:
    options = {"group_size": 1} if policy == "redirection" else {}
    journalled(tmp_path / "run.pbj", policy, CROWDED, **options)
    result = replay(JournalReader(tmp_path / "run.pbj"))
    assert result.difference is None
    assert result.n_same > 5
    assert result.note == "the run ended"


def test_a_journal_of_another_version_is_replayed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybatsched, "__version__", "0.0.1")
    journalled(tmp_path / "run.pbj", "easy", CROWDED)
    monkeypatch.undo()
    assert replay(JournalReader(tmp_path / "run.pbj")).difference is None
    assert not any("today's policy" in text for _, text in explain(JournalReader(tmp_path / "run.pbj"), "w0!b"))


def test_unrequested_notes_are_not_kept() -> None:
    session = Session(plan_for("ujfb"))
    FakeBatsim(CROWDED, 4, {"dynamic-jobs-enabled": True}, batsim=5).run(session.handle)
    assert session.finished
    assert session.notes == {}


def test_explain_joins_continued_jobs_without_metadata_for_batsim(tmp_path: Path) -> None:
    """The same history as with Batsim 4."""
    for batsim in (4, 5):
        session = Session(plan_for("ujfb"), journal=JournalWriter(tmp_path / f"{batsim}.pbj"), keeps_notes=True)
        with session.closing_journal():
            config = {"dynamic-jobs-enabled": True}
            fake = FakeBatsim(CROWDED, 4, config, batsim=batsim).run(session.handle)
    assert fake.jobs["dyn!w0.a.1"].metadata == ""
    assert session.notes["dyn!w0.a.1"].startswith("parent=w0!a")
    received: list[Callable[[JournalReader], object]] = [
        lambda reader: explain(reader, "w0!a"),
        lambda reader: explain(reader, "w0!b"),
        job_histories,
        lambda reader: waits_of(reader, "w0!b"),
    ]
    for ask in received:
        four, five = (ask(JournalReader(tmp_path / f"{batsim}.pbj")) for batsim in (4, 5))
        assert four == five
    assert any("dyn!w0.a.1" in text for _, text in explain(JournalReader(tmp_path / "5.pbj"), "w0!a"))


class Asks(Policy):
    """Asks for energy, which Batsim 5 does not report."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        return [d.Query({"consumed_energy": {}})]

    def on_answer(self, answer: Any, now: float) -> None:
        raise AssertionError


def test_decisions_that_batsim_5_lacks_are_policy_errors(tmp_path: Path) -> None:
    messages: list[str] = []
    session = Session(plan_for(Asks), journal=JournalWriter(tmp_path / "run.pbj"), say=messages.append)
    with pytest.raises(PolicyError, match="Batsim 5 does not support Query"), session.closing_journal():
        FakeBatsim(CROWDED, 4, batsim=5).run(session.handle)
    assert messages == [
        "policy Asks has on_answer, which is never called: Batsim 5 has no queries (for example of energy)"
    ]
    *_, last = JournalReader(tmp_path / "run.pbj").exchanges()
    assert last.error is not None
    assert "Query" in last.error[1]


def test_features_that_batsim_5_lacks_are_reported_at_the_start() -> None:
    messages: list[str] = []
    Session(plan_for("ujfb"), say=messages.append).handle(write_greeting(""))
    text, crash = messages
    assert "segmentation fault" in crash
    assert text.startswith("policy ujfb may continue jobs under other ids, and Batsim 5 stores no job metadata")
    messages.clear()
    Session(plan_for("easy"), say=messages.append).handle(write_greeting(""))
    Session(plan_for("ujfb"), say=messages.append, keeps_notes=True).handle(write_greeting(""))
    assert messages == []


@pytest.mark.parametrize("batsim", [4, 5])
def test_a_segment_is_explained_by_the_history_of_its_job(batsim: int, tmp_path: Path) -> None:
    session = Session(plan_for("ujfb"), journal=JournalWriter(tmp_path / "run.pbj"))
    with session.closing_journal():
        FakeBatsim(CROWDED, 4, {"dynamic-jobs-enabled": True}, batsim=batsim).run(session.handle)
    whole, of_part = (explain(JournalReader(tmp_path / "run.pbj"), name) for name in ("w0!a", "dyn!w0.a.1"))
    assert of_part == whole
    assert any("continues as dyn!w0.a.1" in text for _, text in whole)


@pytest.mark.parametrize(
    "raw", [b"", bytes(3), b"\x05\0\0\0{}{}", b"\0\0\0\x02{}", bytes(8), b"\xff\xff\xff\xffx", b"[]", b"hello" * 20]
)
def test_a_wrong_first_message_names_both_protocols(raw: bytes, tmp_path: Path) -> None:
    session = Session(plan_for("easy"), journal=JournalWriter(tmp_path / "run.pbj"))
    with pytest.raises(RemoteProtocolError) as message, session.closing_journal():
        session.handle(raw)
    text = str(message.value)
    assert text.startswith("message 1: expected a JSON object (Batsim 3.1 to 4.2), or the greeting of Batsim 5")
    assert text.endswith(f", {len(raw)} bytes")
    (only,) = JournalReader(tmp_path / "run.pbj").exchanges()
    assert only.error == ("RemoteProtocolError", text)


def test_a_greeting_that_is_too_large_or_not_utf_8_is_rejected() -> None:
    with pytest.raises(RemoteProtocolError, match="message 1: 1004 bytes; expected at most 100"):
        Session(plan_for("easy"), max_bytes=100).handle(write_greeting("x" * 1000))
    with pytest.raises(RemoteProtocolError, match="message 1: .*UTF-8"):
        Session(plan_for("easy")).handle(b"\x01\0\0\0\xff")


def test_a_second_greeting_is_rejected() -> None:
    session = Session(plan_for("easy"))
    session.handle(write_greeting(""))
    with pytest.raises(RemoteProtocolError, match="message 2: expected a JSON object"):
        session.handle(write_greeting(""))


@pytest.mark.parametrize("name", ["basic", "calls", "dynamic", "features-reject", "kill"])
def test_easy_reads_recorded_messages_to_another_scheduler(name: str) -> None:
    """Up to the first job that only one of the two schedulers has started; all messages are read."""
    (recording,) = (one for one in recordings5() if one.name == name)
    requests = [raw for sender, raw in recording.records if sender == "batsim"]
    session = Session(plan_for("easy"))
    session.handle(write_greeting(""))
    for request in requests[1:4]:
        session.handle(request)
    assert session.engine.began


def test_a_journal_with_an_invalid_hello_is_explained_up_to_it(tmp_path: Path) -> None:
    session = Session(plan_for("easy"), journal=JournalWriter(tmp_path / "run.pbj"))
    greeting = write_greeting("")
    hello = session.handle(greeting)
    session.close("was cut")
    raw = (tmp_path / "run.pbj").read_bytes()
    broken = raw.replace(hello, b"\x01" + hello[1:])
    assert broken != raw
    (tmp_path / "broken.pbj").write_bytes(broken)
    with pytest.raises(InputError, match="unknown job 'w0!a'"):
        explain(JournalReader(tmp_path / "broken.pbj"), "w0!a")
    result = replay(JournalReader(tmp_path / "broken.pbj"))
    assert result.difference is not None
    assert json.dumps(result.difference.recorded)
    assert write_hello(Hello("x", "1"))[:4] == b"\x02\0\0\0"
