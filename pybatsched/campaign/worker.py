"""A worker process: reads cells from its standard input, a line of JSON each, and answers with their results.

Whatever policies print goes to standard error, so that it cannot mix with the answers.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys

from pybatsched.campaign.execute import tried


def main() -> int:
    """Work until there is no more to read."""
    faulthandler.enable()  # a segmentation fault says where, on standard error
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(tried(request["cell"], request["folder"])) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
