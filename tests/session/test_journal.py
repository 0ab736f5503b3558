"""Journals: written record by record, read after truncation at any byte, replayed and explained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from support.journals import cut_before_reply, explained, record_ends
from support.places import PUSHY
from support.process import run_cli
from support.pushy import Gentle, Loader
from support.recordings import recording
from support.scripted import Scripted

from pybatsched.core.engine import Engine
from pybatsched.core.jobs import Job
from pybatsched.errors import InputError, Interrupted, PybatschedError, RemoteProtocolError
from pybatsched.policies import registry
from pybatsched.protocol import v4
from pybatsched.session.explain import explain, full_histories, job_histories
from pybatsched.session.job_history import JobHistory
from pybatsched.session.journal import Exchange, JournalReader, JournalWriter
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Refused, Workload, plan_for

E2B = (
    Workload()
    .job(1, n=4, s=6, walltime=10)
    .job(2, n=4, s=6, walltime=7, estimate=6)
    .job(3, n=6, s=4, at=1, walltime=5, estimate=4)
    .job(4, n=2, s=12, at=2, walltime=13, estimate=12)
    .job(5, n=4, s=3, at=3, walltime=4, estimate=3)
    .job(6, n=8, s=2, at=4, walltime=3, estimate=2)
    .job("big", n=9, s=2, at=5, walltime=3)
)

# EASY starts job 3 before job 2, FCFS does not.
BACKFILL = (
    Workload().job(1, n=6, s=10, walltime=11).job(2, n=6, s=10, at=1, walltime=11).job(3, n=2, s=4, at=2, walltime=5)
)


def write(path: Path, policy: str = "easy", workload: Workload = E2B, **options: object) -> Path:
    journal = JournalWriter(path)
    FakeBatsim(workload, 8).run(Session(plan_for(policy, **options), journal=journal).handle)
    journal.end("ended")
    journal.close()
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return write(tmp_path / "run.pbj")


def test_header_and_exchanges(journal: Path) -> None:
    reader = JournalReader(journal)
    header = reader.header
    assert (header["policy"], header["version"], len(header["platform"])) == ("easy", 1, 64)
    assert header["options"] == registry.find("easy").cls.Options().model_dump(mode="json")
    assert header["options"]["order"] == "fcfs"
    exchanges = list(reader.exchanges())
    assert [exchange.n for exchange in exchanges] == list(range(1, len(exchanges) + 1))
    assert b"SIMULATION_BEGINS" in exchanges[0].request
    assert b"SIMULATION_ENDS" in exchanges[-1].request
    reasons = [reason for exchange in exchanges for reason in exchange.reasons]
    assert "head of the queue" in reasons
    assert "asks for 9 processors; the platform has 8" in reasons
    assert reader.note == "the run ended"


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "a").read_bytes() == write(tmp_path / "b").read_bytes()


def test_a_journal_truncated_at_any_byte_is_readable_up_to_its_last_record(journal: Path, tmp_path: Path) -> None:
    whole = journal.read_bytes()
    ends = record_ends(whole)
    cut = tmp_path / "cut.pbj"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        n_whole = sum(end <= size for end in ends)
        if n_whole == 0:
            with pytest.raises(InputError, match="no complete record"):
                JournalReader(cut)
            continue
        reader = JournalReader(cut)
        exchanges = list(reader.exchanges())
        replies = [exchange for exchange in exchanges if exchange.reply is not None]
        assert (len(exchanges), len(replies)) == (n_whole // 2, (n_whole - 1) // 2)
        left = size - ends[n_whole - 1]
        no_end = "the journal has no end: the run was killed, or is still running"
        assert reader.note == (
            f"the journal is truncated: {left} bytes after its last complete record" if left else no_end
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is not a pybatsched journal; expected a file written with journal"),
        (b"h", "is not a pybatsched journal"),
        (b"# a page of text\n", "is not a pybatsched journal"),
        (b'{"nb_res": 4}', "is not a pybatsched journal"),
        (b"\x1f\x8b\x08\x00", "is not a pybatsched journal"),  # gzip
        (b"\xdd\xff\xff\xff\xff", "is not a pybatsched journal"),  # an array of four thousand million
        (msgpack.packb({"record": "request"}), "is not a pybatsched journal"),
        (b"", r"contains no complete record \(it is empty\): the run ended before its first message"),
        (
            b"\x8a\xa6rec",
            r"contains no complete record \(the journal is truncated: 5 bytes after its last complete record\)",
        ),
        (msgpack.packb({"record": "header", "format": "pybatsched journal", "version": 99}), "version 99; expected 1"),
        (b"\xc1", "is not a pybatsched journal"),
    ],
)
def test_files_that_are_not_journals_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        JournalReader(path)


def test_damage_in_the_middle_is_named_by_its_byte(journal: Path) -> None:
    raw = journal.read_bytes()
    end = record_ends(raw)[2]
    journal.write_bytes(raw[:end] + b"\xc1" + raw[end:])
    with pytest.raises(InputError, match=f"the record at byte {end} cannot be read"):
        list(JournalReader(journal).exchanges())


def test_options_of_any_type_can_be_recorded(tmp_path: Path) -> None:
    import datetime as dt

    journal = JournalWriter(tmp_path / "run.pbj")
    plan = plan_for("easy")
    journal.header(plan, None, {"when": dt.date(2026, 11, 15)})
    journal.close()
    assert JournalReader(tmp_path / "run.pbj").header["options"] == {"when": "2026-11-15"}


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        JournalReader(tmp_path / "gone")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        JournalWriter(tmp_path / "no" / "where")


@pytest.mark.parametrize(
    ("policy", "options"), [("fcfs", {}), ("easy", {"order": "sjf"}), ("conservative", {"compression": False})]
)
def test_replay_is_identical(tmp_path: Path, policy: str, options: dict[Any, Any]) -> None:
    path = write(tmp_path / "run.pbj", policy, **options)
    result = replay(JournalReader(path))
    assert result.difference is None
    assert result.n_same > 10


def test_replay_reports_the_first_difference(tmp_path: Path) -> None:
    journal = write(tmp_path / "run.pbj", workload=BACKFILL)
    result = replay(JournalReader(journal), "fcfs")
    assert result.difference is not None
    assert '"w0!3"' in result.difference.recorded
    assert '"events":[]' in result.difference.replayed
    assert (result.n_same, result.difference.n) == (3, 4)


def test_replay_of_a_truncated_journal(journal: Path) -> None:
    raw = journal.read_bytes()
    journal.write_bytes(raw[: len(raw) // 2])
    result = replay(JournalReader(journal))
    assert result.difference is None
    assert "is truncated" in result.note


def test_replay_of_a_truncated_journal_reports_both_truncation_and_difference(tmp_path: Path) -> None:
    path = write(tmp_path / "run.pbj", workload=BACKFILL)
    raw = path.read_bytes()
    path.write_bytes(raw[:-3])
    result = replay(JournalReader(path), "fcfs")
    assert result.difference is not None
    left = len(raw) - 3 - record_ends(raw)[-2]
    assert result.note == f"the journal is truncated: {left} bytes after its last complete record"
    done = run_cli("replay", str(path), "--policy", "fcfs")
    assert (done.returncode, done.stdout) == (7, f"({result.note})\n")
    assert "first difference at message 4" in done.stderr


def test_damage_after_a_difference_does_not_hide_it(tmp_path: Path) -> None:
    path = write(tmp_path / "run.pbj", workload=BACKFILL)
    raw = path.read_bytes()
    path.write_bytes(raw + b"\xc1")
    result = replay(JournalReader(path), "fcfs")
    assert result.difference is not None
    assert f"the record at byte {len(raw)} cannot be read" in result.note


@pytest.mark.parametrize("n_records", [1, 2])
def test_a_journal_without_a_whole_message_is_not_identical(n_records: int, journal: Path) -> None:
    """With its header alone, and with an unanswered request."""
    raw = journal.read_bytes()
    ends = record_ends(raw)
    journal.write_bytes(raw[: ends[n_records - 1] + 7])
    done = run_cli("replay", str(journal))
    why = "(the journal is truncated: 7 bytes after its last complete record)"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pybatsched: {str(journal)!r} contains no complete message to compare {why}\n"


def test_a_run_that_was_stopped_before_its_first_message_is_not_identical(tmp_path: Path) -> None:
    session = Session(plan_for("easy"), journal=JournalWriter(tmp_path / "run.pbj"))
    with pytest.raises(Interrupted), session.closing_journal():
        raise Interrupted(2)
    with pytest.raises(InputError, match=r"contains no complete message .* \(the run was interrupted\)"):
        replay(JournalReader(tmp_path / "run.pbj"))


def test_a_failed_run_keeps_the_offending_bytes_and_replays(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "bad.pbj")
    session = Session(plan_for("easy"), journal=journal)
    begin = recording("plain").requests[0]
    session.handle(begin)
    with pytest.raises(RemoteProtocolError, match="message 2: expected a JSON object"):
        session.handle(b"\xff{nonsense")
    journal.close()
    exchanges = list(JournalReader(tmp_path / "bad.pbj").exchanges())
    assert exchanges[1].request == b"\xff{nonsense"
    assert exchanges[1].error is not None
    assert exchanges[1].error[0] == "RemoteProtocolError"
    assert replay(JournalReader(tmp_path / "bad.pbj")).difference is None


def test_a_broken_first_message_is_kept_too(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "bad.pbj")
    with pytest.raises(RemoteProtocolError, match="message 1"):
        Session(plan_for("easy"), journal=journal).handle(b"hello")
    journal.close()
    reader = JournalReader(tmp_path / "bad.pbj")
    assert reader.header["platform"] is None
    assert [exchange.request for exchange in reader.exchanges()] == [b"hello"]


def test_an_oversized_message_is_truncated_in_the_journal(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "big.pbj")
    with pytest.raises(RemoteProtocolError, match="3000000 bytes; expected at most 1000"):
        Session(plan_for("easy"), journal=journal, max_bytes=1000).handle(b"x" * 3_000_000)
    journal.close()
    (exchange,) = JournalReader(tmp_path / "big.pbj").exchanges()
    assert (len(exchange.request), exchange.is_cut) == (2**20, True)


def test_the_history_of_a_job_that_waited(journal: Path) -> None:
    assert explained(journal, "w0!3") == [
        "1 submitted: 6 processors, walltime 5",
        (
            "1 not started: head of the queue: needs 6 processors, 0 are free; "
            "reserved: 6 processors at 10.0, of 8 free then"
        ),
        "5 ... passed over 5 more times",
        "6 started on 0-5: head of the queue",
        "10 ended: COMPLETED_SUCCESSFULLY, return code 0",
        "20 (the run ended)",
    ]
    assert "6 not started: behind w0!5; needs 8 processors, 0 are free" in explained(journal, "w0!6")


def test_the_history_of_a_rejected_job(journal: Path) -> None:
    assert explained(journal, "w0!big") == [
        "5 submitted: 9 processors, walltime 3",
        "5 rejected: asks for 9 processors; the platform has 8",
        "20 (the run ended)",
    ]


def test_the_history_of_a_requeued_job(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.pbj")
    workload = Workload().job("a", n=2, s=10, walltime=20).job("b", n=2, s=5, at=4, walltime=6)
    session = Session(plan_for(Gentle), journal=journal)
    FakeBatsim(workload, 2, config={"dynamic-jobs-enabled": True}).run(session.handle)
    journal.close()
    assert explained(tmp_path / "run.pbj", "w0!a") == [
        (
            "0 (why the job waited is unknown: unknown policy 'Gentle'; "
            f"installed: {', '.join(registry.available())} (or give path/to/file.py:Class))"
        ),
        "0 submitted: 2 processors, walltime 20",
        "0 started on 0-1: head of the queue",
        "4 kill asked for",
        "4 ended: COMPLETED_KILLED, return code -1",
        "4 kill took effect",
        "4 requeued, continues as dyn!w0.a.1 with 0.5 s that are not work: so that its parts can be put together again",
        "9 started on 0-1: head of the queue",
        "15.5 ended: COMPLETED_SUCCESSFULLY, return code 0",
        "15.5 (the journal has no end: the run was killed, or is still running)",
    ]


def test_the_history_of_a_job_with_a_load(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.pbj")
    session = Session(plan_for(Loader, load_s=4), journal=journal)
    FakeBatsim(Workload().job("a", n=1, s=10), 2, config={"dynamic-jobs-enabled": True}).run(session.handle)
    journal.close()
    assert explained(tmp_path / "run.pbj", "w0!a")[1:-1] == [
        "0 submitted: 1 processor, walltime none",
        "0 rejected: continues as dyn!w0.a.1",
        ("0 replaced, continues as dyn!w0.a.1 with 4 s that are not work: so that its parts can be put together again"),
        "0 started on 0",
        "14 ended: COMPLETED_SUCCESSFULLY, return code 0",
    ]


def test_the_history_of_a_reshaped_job(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.pbj")
    policy = f"{PUSHY}:Narrower"
    workload = Workload().job("a", n=2, s=10, walltime=20).job("b", n=4, s=20, at=1, walltime=30)
    FakeBatsim(workload, 4, config={"dynamic-jobs-enabled": True}).run(
        Session(plan_for(policy), journal=journal).handle
    )
    journal.close()
    assert [f"{at:g} {text}" for at, text in explain(JournalReader(tmp_path / "run.pbj"), "w0!b", policy)][:-1] == [
        "1 submitted: 4 processors, walltime 30",
        "1 reshaped to 1 processor, times x 4: one is enough",
        "1 rejected: continues as dyn!w0.b.1",
        "1 replaced, continues as dyn!w0.b.1: so that its parts can be put together again",
        "1 started on 1: head of the queue",
        "81 ended: COMPLETED_SUCCESSFULLY, return code 0",
    ]


def test_unknown_jobs(journal: Path) -> None:
    with pytest.raises(InputError, match=r"unknown job 'w0!ghost'; the journal has \d+ jobs, w0!\w+ to w0!\w+$"):
        explain(JournalReader(journal), "w0!ghost")


@pytest.mark.parametrize("policy", [None, "fcfs"])
def test_a_job_missing_from_a_truncated_journal(journal: Path, policy: str | None) -> None:
    raw = journal.read_bytes()
    journal.write_bytes(raw[: record_ends(raw)[4] + 9])  # the header and two exchanges
    with pytest.raises(
        InputError,
        match=r"unknown job 'w0!6'; the journal has .* \(the journal is truncated: 9 bytes after its last complete rec",
    ):
        explain(JournalReader(journal), "w0!6", policy)


def test_explain_reads_a_truncated_journal(journal: Path) -> None:
    raw = journal.read_bytes()
    journal.write_bytes(raw[: len(raw) * 2 // 3])
    assert any("is truncated" in line for line in explained(journal, "w0!3"))


def test_explain_shows_the_recorded_part_if_the_policy_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = write(tmp_path / "run.pbj", workload=BACKFILL)
    fcfs = plan_for("fcfs").source
    monkeypatch.setattr("pybatsched.session.replay.registry.find", lambda _name, **_trust: fcfs)
    assert explained(journal, "w0!3") == [
        "2 submitted: 2 processors, walltime 5",
        "2 started on 6-7: backfilled: ends by the shadow time 11.0 of w0!2",
        "2 (from here on the policy decides differently; why the job waited is unknown)",
        "6 ended: COMPLETED_SUCCESSFULLY, return code 0",
        "20 (the run ended)",
    ]


def test_scripted_replies_that_would_abort_batsim_are_errors(tmp_path: Path) -> None:
    name = "bad-busy-resource"
    options = {"conversation": recording(name).directory / "conversation.jsonl"}
    session = Session(plan_for(Scripted, **options))
    with pytest.raises(PybatschedError, match="processors free"):
        for request in recording(name).requests:
            session.handle(request)


def test_the_history_of_a_suspended_job(tmp_path: Path) -> None:
    """It is stopped at 10 for an urgent job, held from 71 on, and goes on at 72."""
    journal = JournalWriter(tmp_path / "run.pbj")
    jobs = Workload().job("a", n=6, s=100, walltime=101, estimate=100)
    jobs.job("u", n=7, s=60, at=10, walltime=61, estimate=60, urgent=True)
    session = Session(plan_for("ujfb", swap="fixed"), journal=journal)
    with session.closing_journal():
        FakeBatsim(jobs, 8, config={"dynamic-jobs-enabled": True}).run(session.handle)
    journal.close()
    assert explained(tmp_path / "run.pbj", "w0!a") == [
        "0 submitted: 6 processors, walltime 101",
        "0 started on 0-5: its place in the plan, 0.0, has come",
        "10 kill asked for: preempted for the urgent job w0!u, which needs 7 processors",
        "10 ended: COMPLETED_KILLED, return code -1",
        "10 kill took effect",
        "10 requeued, continues as dyn!w0.a.1: so that its parts can be put together again",
        "10 not started: suspended for w0!u: resumes at 71.0, when 0-5 are free",
        "71 held on 0-5, to start at 72.0: resumes after 1.0 s of swap-in: the processors it had are free",
        "72 started on 0-5: resumes after 1.0 s of swap-in: the processors it had are free",
        "162 ended: COMPLETED_SUCCESSFULLY, return code 0",
        "162 (the run ended)",
    ]
    assert explained(tmp_path / "run.pbj", "w0!u")[2:4] == [
        "10 held on 0-4 6-7, to start at 11.0: urgent: 1 regular jobs were preempted, which takes 1.0 s",
        "11 started on 0-4 6-7: urgent: 1 regular jobs were preempted, which takes 1.0 s",
    ]


@pytest.mark.parametrize(
    "record",
    [
        {"record": "request", "n": 1, "bytes": 5},
        {"record": "request", "n": "1", "bytes": b"{}"},
        {"record": "request", "n": 1, "bytes": [1]},
        *({"record": "reply", "n": 1, "bytes": b"{}", "reasons": one} for one in (0.5, {"a": 1}, [1])),
        *({"record": "reply", "n": 1, "bytes": b"{}", "notes": [one]} for one in (["0", "w0!a", "x"], [0, "w0!a"])),
        {"record": "reply", "n": 1, "bytes": "text", "reasons": []},
        {"record": "reply", "n": 1, "bytes": b"{}", "reasons": 7},
    ],
)
def test_untrusted_records_are_checked(record: dict[str, Any], tmp_path: Path) -> None:
    head = {"record": "header", "format": "pybatsched journal", "version": 1, "policy": "easy"}
    before = [head | {"options": {}, "given": {}, "from_file": {}}, {"record": "request", "n": 1, "bytes": b"{}"}]
    path = tmp_path / "strange.pbj"
    path.write_bytes(b"".join(map(msgpack.packb, [*before, record])))
    for command in (("replay",), ("explain", "w0!a"), ("explain", "w0!a", "--why-not-earlier")):
        done = run_cli(command[0], str(path), *command[1:])
        assert done.returncode == 2, done.stderr
        assert "is damaged: in a record, '" in done.stderr
        assert "' is missing or invalid" in done.stderr


@pytest.mark.parametrize(
    "end", [b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 9000, b"\xd6\xff" * 3]
)
def test_sizes_in_an_untrusted_journal_are_checked(end: bytes, tmp_path: Path) -> None:
    head = {"record": "header", "format": "pybatsched journal", "version": 1, "policy": "easy"}
    path = tmp_path / "strange.pbj"
    path.write_bytes(msgpack.packb(head | {"options": {}, "given": {}, "from_file": {}}) + end + bytes(9))
    done = run_cli("replay", str(path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_trust_also_holds_for_the_id_of_a_segment(tmp_path: Path) -> None:
    path = tmp_path / "run.pbj"
    job = {"id": "a", "subtime": 0, "res": 1, "walltime": 20, "profile": "p"}
    content = {"nb_res": 1, "jobs": [job], "profiles": {"p": {"type": "delay", "delay": 5}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    policy = f"{PUSHY}:Loader"
    args = ("--procs", "1", "-w", "w.json", "--policy", policy, "--journal", str(path), "-q")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    whole = run_cli("explain", str(path), "w0!a", "--trust")
    part = run_cli("explain", str(path), "dyn!w0.a.1", "--trust")
    assert (whole.returncode, part.returncode) == (0, 0)
    assert "use --trust" not in part.stdout + part.stderr
    assert part.stdout.splitlines()[-3:] == whole.stdout.splitlines()[-3:]


DYNAMIC = {"dynamic-jobs-enabled": True}


def record(path: Path, workload: Workload, n_procs: int, policy: str = "easy", **options: object) -> Path:
    session = Session(plan_for(policy, **options), journal=JournalWriter(path))
    with session.closing_journal():
        FakeBatsim(workload, n_procs, config=DYNAMIC).run(session.handle)
    return path


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is decoded from now on."""
    n: Counter[str] = Counter()

    def counting(name: str, decode: Callable[..., Any]) -> Callable[..., Any]:
        def counts(*args: Any, **more: Any) -> Any:
            n[name] += 1
            return decode(*args, **more)

        return counts

    for name in ("decode_events", "decode_decisions"):
        monkeypatch.setattr(v4, name, counting(name, getattr(v4, name)))
    return n


def crowd(n: int) -> Workload:
    """As many jobs in one message as there are, each of which ends by itself."""
    jobs = Workload()
    for number in range(n):
        jobs.job(number, n=1, s=1 + number, walltime=n + 1)
    return jobs


def test_a_message_is_decoded_once_however_many_jobs_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "run.pbj", crowd(50), 50, "fcfs")
    n_exchanges = len(list(JournalReader(path).exchanges()))
    n = counted(monkeypatch)
    assert len(full_histories(JournalReader(path))) == 50
    assert n == {"decode_events": 2 * n_exchanges, "decode_decisions": n_exchanges}  # one of two is the policy's own
    n.clear()
    explain(JournalReader(path), "w0!7")
    # The message that submits the job is decoded once more: that its text contains the id is not enough.
    assert n == {"decode_events": 2 * n_exchanges + 1, "decode_decisions": n_exchanges + 1}
    n.clear()
    assert len(job_histories(JournalReader(path))) == 50
    assert n == {"decode_decisions": n_exchanges}


def test_reasons_are_asked_only_for_waiting_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the other jobs, at most as many run at each message as the machine has processors."""
    path = record(tmp_path / "run.pbj", crowd(50), 50, "fcfs")
    looked = Counter[str]()
    ask = JobHistory.ask

    def asks(story: JobHistory, engine: Engine, now: float) -> Job | None:
        looked[story.job_id] += 1
        return ask(story, engine, now)

    monkeypatch.setattr(JobHistory, "ask", asks)
    full_histories(JournalReader(path))
    assert set(looked.values()) == {2}  # with its start, and with its end


def test_histories_of_suspended_jobs_equal_those_of_explain(tmp_path: Path) -> None:
    """They run, are killed, wait and are held, under names of their own, and run again."""
    jobs = Workload().job("a", n=6, s=100, walltime=101, estimate=100).job("b", n=2, s=80, walltime=81, estimate=80)
    jobs.job("u", n=7, s=60, at=10, walltime=61, estimate=60, urgent=True)
    jobs.job("c", n=8, s=10, at=20, walltime=11, estimate=10).job("big", n=9, s=5, at=30, walltime=9)
    path = record(tmp_path / "run.pbj", jobs, 8, "ujfb", swap="fixed")
    found = full_histories(JournalReader(path))
    assert sorted(found) == ["w0!a", "w0!b", "w0!big", "w0!c", "w0!u"]
    for job_id, lines in found.items():
        *history, end = explain(JournalReader(path), job_id)
        assert (lines, end[1]) == (history, "(the run ended)")
    texts = [text.partition(":")[0].partition(",")[0] for _, text in found["w0!a"]]
    assert {"started on 0-5", "requeued", "not started", "held on 0-5", "kill took effect"} <= set(texts)


# --- journals that are cut ---

# On four processors, b waits for a, and c for b.
QUEUE = Workload().job("a", n=4, s=8, walltime=9).job("b", n=4, s=5, at=1, walltime=6).job("c", n=4, s=2, at=2)


def test_a_truncated_reply_is_not_a_different_reply(tmp_path: Path) -> None:
    """The fourth message submits c; its reply is missing."""
    path = record(tmp_path / "run.pbj", QUEUE, 4)
    whole = {job_id: explain(JournalReader(path), job_id) for job_id in ("w0!a", "w0!b", "w0!c")}
    cut_before_reply(path, 4)
    reader = JournalReader(path)
    found = full_histories(reader)
    note = "the journal is truncated: 7 bytes after its last complete record"
    assert (reader.is_whole, reader.note) == (False, note)
    assert [text.partition(":")[0] for _, text in found["w0!b"]] == ["submitted", "not started"]
    assert [text for _, text in found["w0!c"]] == ["submitted: 4 processors, walltime none"]
    for job_id, lines in found.items():
        assert lines == whole[job_id][: len(lines)]
        assert explain(JournalReader(path), job_id) == [*lines, (2.0, f"({note})")]


def test_the_policy_is_asked_again_after_an_unanswered_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that cannot be compared are not replayed."""
    path = record(tmp_path / "run.pbj", QUEUE, 4)
    exchanges = list(JournalReader(path).exchanges())
    exchanges.insert(2, Exchange(99, b'{"now": 0.5, "events": []}'))
    monkeypatch.setattr(JournalReader, "exchanges", lambda _: iter(exchanges))
    history = [text for _, text in explain(JournalReader(path), "w0!b")]
    assert not [text for text in history if "today's policy" in text]
    kinds = [text.partition(":")[0] for text in history]
    assert kinds == ["submitted", "not started", "... passed over 2 more times", "started on 0-3", "ended"]


def test_all_histories_have_the_reason_of_a_failed_run(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.pbj")
    session = Session(plan_for("easy"), journal=journal)
    answers = iter((*"abc", None))

    def handle(raw: bytes) -> bytes:
        return session.handle(raw if next(answers) else b"nonsense")

    with pytest.raises(Refused), session.closing_journal():
        FakeBatsim(QUEUE, 4).run(handle)
    found = full_histories(JournalReader(tmp_path / "run.pbj"))
    assert sorted(found) == ["w0!a", "w0!b"]
    for job_id, lines in found.items():
        assert lines[-1][1].startswith("the run failed: RemoteProtocolError: message 4: ")
        assert lines == explain(JournalReader(tmp_path / "run.pbj"), job_id)[:-1]
