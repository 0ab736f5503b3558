"""A worker process: it reads cells from standard input, a line of JSON each, and writes their results.

Output of policies goes to standard error, so that it cannot mix with the results.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys

from pybatsched.campaign.execute import run_or_error


def main() -> int:
    """Run cells until the end of standard input."""
    faulthandler.enable()  # prints a traceback on a segmentation fault
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        results.write(json.dumps(run_or_error(request["cell"], request["folder"])) + "\n")
        results.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
