"""No test depends on the speed of the machine: limits come from tests/support/patience.py."""

from __future__ import annotations

import ast
import re

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


def test_every_program_that_is_run_has_a_limit() -> None:
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.run":
                limits = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "timeout"]
                assert limits in (["PATIENCE_S"], ["PATIENCE_OF_WORK_S"]), f"{path}: {ast.unparse(node)}"


def test_a_hard_coded_time_limit_is_detected() -> None:
    for line in ("subprocess.run(command, timeout=60)", "process.wait()", "time.sleep(1)", "socket.RCVTIMEO = 2000"):
        assert suspects(line) == [line]
        assert suspects(f"# patience: a reason\n{line}") == []
    assert suspects("process.wait(PATIENCE_S)") == []
