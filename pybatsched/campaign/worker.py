"""A worker process: it reads cells, or pickled calls, from standard input, a line of JSON each, and writes results."""

from __future__ import annotations

import base64
import faulthandler
import io
import json
import os
import pickle
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from pybatsched.campaign.one_cell import run_or_error


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
    """Run a pickled call of the parent process, with its module paths, and return its result or its error."""
    sys.path += [path for path in cell["path"] if path not in sys.path]
    stdout, stderr = _Copy(), _Copy()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            function, args = pickle.loads(base64.b64decode(cell["call"]))  # noqa: S301  of the parent process
            result = function(*args)
        except Exception as error:  # noqa: BLE001  the parent process reports it
            result = {"error": "".join(traceback.format_exception(error)).strip()}
    return {"address": cell["address"], **result, "stdout": stdout.getvalue(), "stderr": stderr.getvalue()}


class _Copy(io.StringIO):
    """Keeps a copy of what is printed. If the process dies, the parent process has only its standard error."""

    def write(self, text: str) -> int:
        """Print a text and keep it."""
        assert sys.__stderr__ is not None
        sys.__stderr__.write(text)
        return super().write(text)


if __name__ == "__main__":
    sys.exit(main())
