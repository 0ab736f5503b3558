#!/usr/bin/env python3
"""A stand-in for the batsim program: the embedded simulator, with Batsim's command line and ways of ending.

The environment variable STAND_IN makes it misbehave:

    early           ends before its first message
    hang, stubborn  sends nothing, for ever; stubborn ignores SIGTERM
    crash           ends after its first message has been answered
    wait            sends nothing more after its first message, for ever
    crash-late      ends badly after the simulation
    deadlock-abort  aborts after a deadlock, with its files half written, as with SimGrid 3.25
    slow-end        ends later than a scheduler waits for a peer that has closed its connection
    lose-a-job      leaves a row out

Its process id is in the file STAND_IN_PID as soon as it is ready, its arguments are in STAND_IN_ARGS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

# Run as a program, so it cannot import its neighbours.
RECORDING = Path(__file__).parents[1] / "conformance" / "recordings" / "v4" / "plain"


def come_out() -> None:
    """Write the process id."""
    Path(os.environ.get("STAND_IN_PID", os.devnull)).write_text(str(os.getpid()))


def stay() -> NoReturn:
    """Do nothing until it is killed."""
    while True:
        signal.pause()


def ask_once(endpoint: str, *, then_stay: bool) -> None:
    """Send one message as Batsim would, receive the reply, and perhaps wait."""
    import zmq

    text = (RECORDING / "conversation.jsonl").read_text().splitlines()[0]
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        socket.send_string(json.loads(text)["text"])
        socket.recv()
        come_out()
        if then_stay:
            stay()


def main(args: list[str]) -> int:
    how = os.environ.get("STAND_IN", "")
    if "--version" in args:
        print("4.2.1")
        return 0
    Path(os.environ.get("STAND_IN_ARGS", os.devnull)).write_text("\n".join(args))
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how not in {"crash", "wait"}:
        come_out()
    if how == "early":
        print("Invalid platform file: no master")
        return 134
    if how in {"hang", "stubborn"}:
        stay()
    if how in {"crash", "wait"}:
        ask_once(args[args.index("--socket-endpoint") + 1], then_stay=how == "wait")
        print("Segmentation fault")
        return 139
    from pybatsched import cli

    code = cli.main(["batsim", *args])
    if how == "crash-late":
        return 139
    jobs = Path(f"{args[args.index('-e') + 1]}_jobs.csv")
    if how == "lose-a-job":
        jobs.write_text("".join(jobs.read_text().splitlines(keepends=True)[:-1]))
    elif how == "deadlock-abort":
        jobs.write_text(jobs.read_text()[:-1] + "7,w0,d,0.0000")
        print("[ker/CRITICAL] Oops! Deadlock or code not perfectly clean.")
        print("\n".join(f"Actor {number} waits" for number in range(40)))
        return 134
    elif how == "slow-end":
        from pybatsched.live.connection import GRACE_S

        # patience: as long as that, or longer
        time.sleep(2 * GRACE_S)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
