#!/usr/bin/env python3
"""A stand-in for the program of Batsim 5: the embedded simulator, with Batsim 5's options, files and exit codes.

With STAND_IN=early it ends after its greeting has been answered, as 5.0.0-rc2 does on some workloads; with
STAND_IN=cut it is killed when it has begun to write the last of its files.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from pathlib import Path


def greet(endpoint: str) -> None:
    """Send the greeting and receive the hello, and nothing more."""
    import zmq

    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        socket.send(bytes(4))
        socket.recv()


def give_names(prefix: str) -> None:
    """Make the simulator's files those of Batsim 5: no notes, profiles by whole names, a schedule in JSON."""
    jobs = Path(f"{prefix}_jobs.csv")
    lines = jobs.read_text().splitlines()
    found = list(csv.DictReader(lines))
    rows = [
        {**row, "profile": f"{row['workload_name']}!{row['profile']}", "metadata": "", "consumed_energy": "0.000000"}
        for row in found
    ]
    with jobs.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].split(","), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    schedule = Path(f"{prefix}_schedule.csv")
    (row,) = csv.DictReader(schedule.read_text().splitlines())
    Path(f"{prefix}_schedule.json").write_text(json.dumps(row).replace('"0.000000"', "-nan"))
    schedule.unlink()
    Path(f"{prefix}_real_exec_info.json").write_text("{}")
    for name in ("_machine_states.csv", "_summary.json", "_state.json"):
        Path(f"{prefix}{name}").unlink(missing_ok=True)


def main(args: list[str]) -> int:
    if args == ["--version"]:
        print("5.0.0-rc2")
        return 0
    from pybatsched import cli

    place = args.index("-s")
    endpoint, text = args[place + 1 : place + 3]
    Path(os.environ.get("STAND_IN_ARGS", os.devnull)).write_text(json.dumps(args))
    if os.environ.get("STAND_IN") == "early":
        greet(endpoint)
        print("Segmentation fault.")
        return 139
    prefix = args[args.index("-e") + 1].removesuffix("_")
    arguments = [arg for arg in args[:place] if arg not in {"-q", "--energy-host"}]
    arguments[arguments.index("-e") + 1] = prefix
    given = ["--external", "--protocol", "v5", "-s", endpoint, "--sched-cfg", text, "--quiet", "--allow-empty"]
    code = cli.main(["simulate", *arguments, *given])
    if code == 5:
        print("Oops! Deadlock detected, some activities are still around but blocked.")
        for name in ("_summary.json", "_state.json"):
            Path(f"{prefix}{name}").unlink(missing_ok=True)
        for path in Path(prefix).parent.glob(f"{Path(prefix).name}.part_*"):
            path.replace(str(path).replace(".part.part_", ".part_"))
        return 1
    if code == 0:
        give_names(prefix)
        if os.environ.get("STAND_IN") == "cut":
            Path(f"{prefix}_schedule.json").write_text('{"nb_jobs": 3, "mak')
            os.kill(os.getpid(), signal.SIGKILL)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
