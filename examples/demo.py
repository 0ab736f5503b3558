"""The main job in miniature: a scheduler process, a simulator on the other end of a real socket, and the result.

Until the embedded simulator exists, the simulator is the project's own fake Batsim (pybatsched.testing).

    python examples/demo.py [--policy easy]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

import zmq

from pybatsched.testing import FakeBatsim, Workload

N_PROCS = 32
WIDTH = 72


def workload() -> Workload:
    """Make thirty jobs of all sizes, always the same ones."""
    rng = random.Random(2026)
    jobs = Workload()
    at = 0.0
    for index in range(30):
        at = round(at + rng.expovariate(1 / 60), 1)
        run = round(rng.uniform(60, 900), 1)
        jobs.job(f"{index:02}", n=2 ** rng.randint(0, 5), s=run, at=at, walltime=round(run * rng.uniform(1.1, 2), 1))
    return jobs


def main() -> int:
    """Serve a policy, simulate, show the schedule and explain one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="easy")
    policy = parser.parse_args().policy
    out = Path("out")
    out.mkdir(exist_ok=True)
    journal = str(out / "demo.pbj")
    pybatsched = [sys.executable, "-m", "pybatsched"]
    command = [*pybatsched, "--policy", policy, "--endpoint", "tcp://127.0.0.1:*", "--journal", journal]
    print(f"$ pybatsched --policy {policy} --journal {journal}", flush=True)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as scheduler:
        assert scheduler.stderr is not None
        first = scheduler.stderr.readline()
        print(first, end="", flush=True)
        if scheduler.poll() is not None or "waiting for Batsim at" not in first:
            return scheduler.wait()
        context = zmq.Context()
        socket = context.socket(zmq.REQ)
        socket.connect(first.split()[-1])

        def ask(raw: bytes) -> bytes:
            socket.send(raw)
            return socket.recv()

        run = FakeBatsim(workload(), N_PROCS).run(ask)
        print(scheduler.stderr.read(), end="", flush=True)
        socket.close()
        context.term()
    if scheduler.returncode:
        return scheduler.returncode
    show(run)
    late = max(run.jobs.values(), key=lambda job: (job.started_at or 0.0) - job.fields["subtime"])
    for arguments in (["replay", journal], ["explain", journal, late.id]):
        print(f"\n$ pybatsched {' '.join(arguments)}", flush=True)
        subprocess.run([*pybatsched, *arguments], check=True)
    return 0


def show(run: FakeBatsim) -> None:
    """Draw the schedule, one line a job: dots while it waits, a bar while it runs."""
    end = max(job.ended_at or 0.0 for job in run.jobs.values())
    print(f"\n{'job':>6} {'procs':>6} {'wait s':>8}  0 s {'':.<{WIDTH - 14}} {end:.0f} s")
    for job in sorted(run.jobs.values(), key=lambda job: job.fields["subtime"]):
        assert job.started_at is not None
        assert job.ended_at is not None
        a, b, c = (round(at / end * WIDTH) for at in (job.fields["subtime"], job.started_at, job.ended_at))
        line = " " * a + "." * (b - a) + "=" * max(c - b, 1)
        print(f"{job.id:>6} {len(job.procs):>6} {job.started_at - job.fields['subtime']:>8.1f}  {line}")
    waits = [(job.started_at or 0.0) - job.fields["subtime"] for job in run.jobs.values()]
    print(f"{len(waits)} jobs on {N_PROCS} processors, mean wait {sum(waits) / len(waits):.1f} s")


if __name__ == "__main__":
    sys.exit(main())
