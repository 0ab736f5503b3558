"""No test depends on the speed of the machine: limits come from tests/support/patience.py."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import pytest
from support.places import ROOT

#: A number of seconds as a literal; 0 means for ever. PATIENCE_S and similar names do not match.
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

#: A line that looks like a guess at the machine's speed is allowed below a comment with the reason.
REASON = re.compile(r"^# patience: \w.*")

FILES = {path.relative_to(ROOT / "tests").as_posix(): path for path in sorted((ROOT / "tests").rglob("*.py"))}
del FILES["test_timeouts.py"]


def suspects(text: str) -> list[str]:
    """Return the lines that depend on the machine's speed and have no comment above that says why they may."""
    above = ""
    found = []
    for line in map(str.strip, text.splitlines()):
        if SUSPECT.search(line) and not REASON.match(above):
            found.append(line)
        above = line
    return found


def test_no_test_waits_by_the_clock() -> None:
    found = {name: suspects(path.read_text()) for name, path in FILES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_each_reason_belongs_to_a_line() -> None:
    for name, path in FILES.items():
        lines = path.read_text().splitlines()
        for line, below in pairwise(lines):
            assert not REASON.match(line.strip()) or SUSPECT.search(below), f"{name}: {line.strip()}"


def test_every_program_that_is_run_has_a_limit() -> None:
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.run":
                limits = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "timeout"]
                assert limits in (["PATIENCE_S"], ["PATIENCE_OF_WORK_S"]), f"{path}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(command, timeout=60)", "process.communicate(timeout=2.5)", "process.communicate()",
        "process.wait()", "process.wait(5)", "thread.join(20)", "socket.poll(20_000)", "endpoints.get(timeout=1)",
        "WebDriverWait(browser, 60).until(ready)", "socket.setsockopt(zmq.RCVTIMEO, 2000)", "socket.RCVTIMEO = 2000",
        "give_up_at = time.monotonic() + 20", "assert time.monotonic() - started < 8", 'Server("--timeout", "1")',
        '"POLICY_OPTIONS": "-o order=sjf --timeout 20"', "timeout_s = 2.0", "time.sleep(1)",
    ],
)  # fmt: skip
def test_a_hard_coded_time_limit_is_detected(line: str) -> None:
    assert suspects(line) == [line]
    assert suspects(f"# patience: a reason\n{line}") == []


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(command, timeout=PATIENCE_S)", "process.wait(PATIENCE_S)", '", ".join(names)',
        "socket.poll(PATIENCE_MS)", 'Server("--timeout", "0", "-v")', 'Server("--timeout", f"{PATIENCE_S:g}")',
        "ServerOptions(endpoint, timeout_s=0, look=look)", "give_up_at = time.monotonic() + PATIENCE_S",
    ],
)  # fmt: skip
def test_limits_from_patience_are_accepted(line: str) -> None:
    assert suspects(line) == []
