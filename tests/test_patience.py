"""No test depends on the machine's speed: limits come from tests/support/patience.py, and nobody waits by the clock."""

from __future__ import annotations

import ast
import re

import pytest
from support.places import ROOT

#: A number of seconds as somebody writes it; 0 is for ever. PATIENCE_S and its like are none.
_S = r"""["' ]*(?!0["',)\s])[\d.]"""
SUSPECT = re.compile(
    rf"""
      timeout (?:_s)? ["']? [\s=:,]+ {_S}        # timeout=5, timeout_s = 2, "timeout": 3, "--timeout", "1"
    | (?: RCV | SND ) TIMEO \W+ {_S}
    | \b (?: wait | join | poll | WebDriverWait ) \( (?: [^()]* , )? {_S}
    | \. (?: wait | join | communicate ) \( \s* \)             # no limit at all
    | \b (?: sleep | setitimer ) \(
    | \b (?: monotonic | perf_counter ) \( \) (?! .* PATIENCE )
    """,
    re.VERBOSE,
)

NEVER_COMES = "what must end by it never ends by itself, so any time will do"
OWN_CLOCK = "it is measured by a clock of the test's own"
NOTHING_HAPPENS = "nothing must happen meanwhile; where it is too short it proves less and fails nobody"
LOOKS = "the pause between two looks at what is waited for"
MEASURED = "it only says how much is tried, or when, or is told"
DESCRIBED = "a time of the description that is carried out"

#: File -> what may stand there though it looks like a guess at the machine's speed, with the reason.
ALLOWED: dict[str, dict[str, str]] = {
    "campaign/test_running.py": {
        "time.sleep(0.01)": LOOKS,
        '("Talks", "TimedOut: more time than timeout_s = 2; it said last:\\n"),': OWN_CLOCK,
        '("Sleeps", "TimedOut: more time than timeout_s = 2\\n"),': OWN_CLOCK,
        'spec.write_text("timeout_s = 2.0\\n" + spec.read_text())': OWN_CLOCK,
        '("Sleeps", "TimedOut: more time than timeout_s = 0.5\\n"),': NEVER_COMES,
        'spec.write_text("timeout_s = 0.5\\n" + spec.read_text())': NEVER_COMES,
    },
    "foreign/programs.py": {
        "while n_running and time.monotonic() < until:": "it is at least PATIENCE_S",
        "time.sleep(0.02)": LOOKS,
    },
    "foreign/robin.py": {
        "_wait_for_one(left, min(until, time.monotonic() + patience))": DESCRIBED,
        "if time.monotonic() > until:": DESCRIBED,
        "until = time.monotonic() + description.simulation_s": DESCRIBED,
        "until = time.monotonic() + ready_s": DESCRIBED,
        "time.sleep(_LOOK_S)": LOOKS,
    },
    "foreign/test_robin.py": {"done = bench.robin(schedcmd=NEVER_ENDS, simulation_timeout=0.5)": NEVER_COMES},
    "live/test_keys.py": {
        'with ExternalScheduler("ipc:///nobody/is/there", timeout_s=0.1) as scheduler:': NEVER_COMES,
        'with Server("--policy", "easy", "--curve", str(made), "--first-timeout", "600") as server:': NEVER_COMES,
        'with Server("--policy", "easy", "--curve", str(tmp_path / "other"), "--first-timeout", "600") as server:': (
            NEVER_COMES
        ),
        'with Server("--policy", "easy", "--curve", str(tmp_path / "other"), "--first-timeout", "0.1") as server:': (
            NEVER_COMES
        ),
        'code, told = simulate(endpoint, "--timeout", "0.5", cwd=tmp_path)  # whoever notices first just hangs up': (
            NEVER_COMES
        ),
        'assert (code, "rejected the connection (it may need keys" in told or "--timeout 0.5" in told) == (4, True)': (
            NEVER_COMES
        ),
        'code, told = simulate(server.wait_ready(), "--curve", str(made), "--timeout", "0.5", cwd=tmp_path)': (
            NEVER_COMES
        ),
    },
    "live/test_process.py": {
        'arguments = (*policy, "--timeout", "1", "--journal", str(journal))': NEVER_COMES,
        'assert "(--timeout 1)" in server.errors': NEVER_COMES,
        'with Server("--policy", "easy", "--timeout", "1") as server, said_at_once(server.wait_ready(), requests):': (
            NEVER_COMES
        ),
        'with Server("--policy", "easy", "--timeout", "0.1") as server, Peer(server.wait_ready()) as peer:': (
            "it counts from the first message on, and that is the last"
        ),
        "time.sleep(0.5)": NOTHING_HAPPENS,
    },
    "live/test_relay.py": {
        'with Relay("tcp://127.0.0.1:1", made, "--timeout", "0.5") as relay, Peer(relay.wait_ready()) as peer:': (
            NEVER_COMES
        ),
        '["--endpoint", "tcp://127.0.0.1:*", "--to", "tcp://127.0.0.1:1", "--first-timeout", "0.1"],': NEVER_COMES,
        'Relay(far.wait_ready(), made, "--timeout", "5") as relay,': NEVER_COMES,
        "passing.relay._timeout_s = 0.1": NEVER_COMES,
    },
    "reliability/children.py": {
        "give_up_at = time.monotonic() + within_s": "it is PATIENCE_S, or a moment that any length will do for",
        "if time.monotonic() > give_up_at:": "as above",
        "time.sleep(_LOOK_S)": LOOKS,
        "began_at = time.monotonic()": MEASURED,
        "return time.monotonic() - began_at": MEASURED,
    },
    "reliability/crashes.py": {
        "until = time.monotonic() + 60 * args.minutes if args.minutes else math.inf": MEASURED,
        "for kind, i in itertools.takewhile(lambda _: time.monotonic() < until, todo):": MEASURED,
    },
    "reliability/elsewhere.py": {"return tests.wait()": "all tests at once, which have limits of their own"},
    "reliability/endurance.py": {
        "began_at = time.monotonic()": MEASURED,
        "wall_s = time.monotonic() - began_at": MEASURED,
    },
    "simulator/test_command.py": {
        'done = simulate(inputs, "--external", "-s", "tcp://127.0.0.1:9", "--timeout", "0.5")': NEVER_COMES,
    },
    "support/batsim5.py": {"if socket.poll(20):": LOOKS},
    "support/halting.py": {"time.sleep(0.01)": LOOKS},
    "support/patience.py": {
        "assert time.monotonic() < give_up_at, problem": "the one place",
        "time.sleep(_LOOK_S)": LOOKS,
        "signal.setitimer(signal.ITIMER_REAL, limit_s)": "the one place",
        "signal.setitimer(signal.ITIMER_REAL, 0)": "the one place",
        "signal.setitimer(signal.ITIMER_VIRTUAL, self._limit_s)": "the one place",
        "signal.setitimer(signal.ITIMER_VIRTUAL, 0)": "the one place",
    },
    "support/pushy.py": {"time.sleep(0.001)": "a fast machine takes as long; a slow one may take longer"},
    "support/stand_in.py": {"time.sleep(2 * GRACE_S)": "as long as that, or longer"},
    "test_compose.py": {'with Server("--policy", "easy", "--first-timeout", "0.5") as server:': NEVER_COMES},
    "workload/test_batsim_json.py": {'({"type": "recv", "timeout": 3}, "timeout"),': "simulated seconds"},
}

FILES = {path.relative_to(ROOT / "tests").as_posix(): path for path in sorted((ROOT / "tests").rglob("*.py"))}
del FILES["test_patience.py"]


def suspects(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if SUSPECT.search(line)}


def test_nobody_waits_by_the_clock() -> None:
    found = {name: suspects(path.read_text()) for name, path in FILES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {name: {*ALLOWED[name]} for name in ALLOWED}


def test_every_program_that_is_run_has_a_limit() -> None:
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.run":
                limits = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "timeout"]
                assert limits in (["PATIENCE_S"], ["PATIENCE_OF_WORK_S"]), f"{path}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(command, timeout=60)",
        "process.communicate(timeout=2.5)",
        "process.communicate()",
        "process.wait()",
        "process.wait(5)",
        "thread.join(20)",
        "socket.poll(20_000)",
        "endpoints.get(timeout=1)",
        "WebDriverWait(browser, 60).until(ready)",
        "socket.setsockopt(zmq.RCVTIMEO, 2000)",
        "socket.RCVTIMEO = 2000",
        "give_up_at = time.monotonic() + 20",
        "assert time.monotonic() - started < 8",
        'Server("--timeout", "1")',
        '"POLICY_OPTIONS": "-o order=sjf --timeout 20"',
        "timeout_s = 2.0",
        "time.sleep(1)",
    ],
)
def test_a_guess_at_the_speed_is_seen(line: str) -> None:
    assert suspects(line) == {line}


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(command, timeout=PATIENCE_S)",
        "process.wait(PATIENCE_S)",
        '", ".join(names)',
        "socket.poll(PATIENCE_MS)",
        'Server("--timeout", "0", "-v")',
        'Server("--timeout", f"{PATIENCE_S:g}")',
        "ServerOptions(endpoint, timeout_s=0, look=look)",
        "give_up_at = time.monotonic() + PATIENCE_S",
    ],
)
def test_patience_is_not(line: str) -> None:
    assert suspects(line) == set()
