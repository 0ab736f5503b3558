"""Check the pinned versions for known vulnerabilities with pip-audit.

    python release/audit.py [PIP-AUDIT]

Exit code 0 only if every pin of constraints.txt was checked and has no known vulnerability, 1 if one has, 2 if the
service cannot be reached or some packages are unknown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
VULNERABLE: Final = 1
NOT_AUDITED: Final = 2


def summary(report: list[dict[str, Any]], n_pins: int) -> tuple[int, list[str]]:
    """Return the exit code and the output lines for a report of pip-audit about `n_pins` pins.

    >>> summary([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}], 2)
    (2, ['not audited: b (not found)', '1 of 2 pins audited, 1 of them without a known vulnerability'])
    """
    lines, n_clean, is_vulnerable = [], 0, False
    for one in report:
        if "skip_reason" in one:
            lines.append(f"not audited: {one['name']} ({one['skip_reason']})")
        elif one["vulns"]:
            is_vulnerable = True
            lines += [
                f"{one['name']} {one['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'none'}"
                for found in one["vulns"]
            ]
        else:
            n_clean += 1
    n_audited = sum("skip_reason" not in one for one in report)
    lines.append(f"{n_audited} of {n_pins} pins audited, {n_clean} of them without a known vulnerability")
    if is_vulnerable:
        return VULNERABLE, lines
    return (0 if n_audited == n_pins else NOT_AUDITED), lines


def main() -> int:
    """Run pip-audit on all pins and return the exit code."""
    program = sys.argv[1] if len(sys.argv) > 1 else "pip-audit"
    pins = ROOT / "constraints.txt"
    n_pins = sum("==" in line for line in pins.read_text(encoding="utf-8").splitlines())
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run([program, *options, "--requirement", str(pins)], capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"make audit: no pin was audited; pip-audit ended with {done.returncode}: {why[:300]}", file=sys.stderr)
        return NOT_AUDITED
    code, lines = summary(report, n_pins)
    for line in lines[:-1]:
        print(line)
    print(f"make audit: {lines[-1]}", file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
