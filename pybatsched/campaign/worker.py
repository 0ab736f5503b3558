"""A worker process: it reads cells, or pickled calls, from standard input, a line of JSON each, and writes results.

Output of policies goes to standard error, so that it cannot mix with the results.
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from pybatsched.campaign.execute import run_or_error


def main() -> int:
    """Run cells until the end of standard input."""
    faulthandler.enable()  # prints a traceback on a segmentation fault
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        cell = request["cell"]
        result = _called(cell) if "call" in cell else run_or_error(cell, request["folder"])
        results.write(json.dumps(result) + "\n")
        results.flush()
    return 0


def _called(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Run a pickled call of the parent process, and return its result or its error.

    Its modules are found where the parent process finds them.
    """
    sys.path += [path for path in cell["path"] if path not in sys.path]
    try:
        function, args = pickle.loads(base64.b64decode(cell["call"]))  # noqa: S301  of the parent process
        return {"address": cell["address"], **function(*args)}
    except Exception as error:  # noqa: BLE001  the parent process reports it
        return {"address": cell["address"], "error": "".join(traceback.format_exception(error)).strip()}


if __name__ == "__main__":
    sys.exit(main())
