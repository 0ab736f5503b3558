#!/usr/bin/env python3
"""A stand-in for the batsim program: the embedded simulator, with Batsim's command line and ways of ending.

The environment variable STAND_IN makes it misbehave: crash, hang, deadlock-abort, lose-a-job, early, stubborn.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(args: list[str]) -> int:
    how = os.environ.get("STAND_IN", "")
    if "--version" in args:
        print("4.2.1")
        return 0
    Path(os.environ.get("STAND_IN_PID", os.devnull)).write_text(str(os.getpid()))
    Path(os.environ.get("STAND_IN_ARGS", os.devnull)).write_text("\n".join(args))
    if how == "early":
        print("Invalid platform file: no master")
        return 134
    if how == "hang":
        time.sleep(600)
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    command = [sys.executable, "-m", "pybatsched", "simulate", "--external", "--timeout", "30", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    if how == "crash-late":
        return 139
    prefix = args[args.index("-e") + 1]
    if how == "lose-a-job":
        path = Path(f"{prefix}_jobs.csv")
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    if done.returncode == 5:  # Batsim exits with 0 after a deadlock; with older SimGrids it aborts
        if how == "deadlock-abort":
            print("Oops! Deadlock or code not perfectly clean.")
            return 134
        return 0
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
