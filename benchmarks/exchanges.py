"""CPU time per exchange of the server over real ZeroMQ, compared with a bare echo loop.

    python benchmarks/exchanges.py [--jobs 10000] [--procs 1024] [--load 0.9] [--policy NAME ...]

Each policy serves a whole simulation to the fake Batsim, in a separate process. The CPU time is that of the server
process without its start-up. The lower bound is a process that only receives, parses and answers the same requests,
with the standard library's json and with msgspec. Prints a table without a verdict.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from pybatsched.testing import FakeBatsim, Workload

ECHO = """
import sys, zmq
if sys.argv[1] == "json":
    from json import loads, dumps
    encode = lambda value: dumps(value).encode()
else:
    from msgspec.json import decode as loads, encode
socket = zmq.Context().socket(zmq.REP)
socket.bind("tcp://127.0.0.1:*")
print("waiting for Batsim at", socket.getsockopt_string(zmq.LAST_ENDPOINT), file=sys.stderr, flush=True)
while True:
    message = loads(socket.recv())
    last = any(event["type"] == "SIMULATION_ENDS" for event in message["events"])
    socket.send(encode({"now": message["now"], "events": []}))
    if last:
        break
socket.close(1000)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    n_exchanges: int
    cpu_s: float
    wall_s: float

    @property
    def us(self) -> float:
        """CPU microseconds per exchange."""
        return self.cpu_s / self.n_exchanges * 1e6


def workload(n_jobs: int, n_procs: int, load: float, seed: int = 1) -> Workload:
    """Return jobs of 1 to 131 processors, with run times from 20 s to 8,000 s and walltimes up to four times that."""
    rng = random.Random(seed)
    jobs = [
        (min(2 ** rng.randint(0, 7) + rng.randint(0, 3), n_procs), round(math.exp(rng.uniform(3, 9)), 2))
        for _ in range(n_jobs)
    ]
    span = sum(n * s for n, s in jobs) / (n_procs * load)
    arrivals = sorted(round(rng.uniform(0, span), 2) for _ in jobs)
    made = Workload()
    for index, ((n, s), at) in enumerate(zip(jobs, arrivals, strict=True)):
        made.job(f"{index:06}", n=n, s=s, at=at, walltime=round(s * rng.choice([1.05, 1.5, 2, 4]), 2))
    return made


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(name: str, command: list[str], drive: Callable[[Callable[[bytes], bytes]], int], start_s: float) -> Row:
    """Start a server, send all requests, and return its CPU time without that of its start-up."""
    before = children_cpu_s()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        endpoint = next(line for line in process.stderr if "waiting for Batsim" in line).split()[-1]
        context = zmq.Context()
        socket = context.socket(zmq.REQ)
        socket.connect(endpoint)

        def ask(raw: bytes) -> bytes:
            socket.send(raw)
            return socket.recv()

        started = time.perf_counter()
        n_exchanges = drive(ask)
        wall_s = time.perf_counter() - started
        process.stderr.read()
        socket.close()
        context.term()
    return Row(name, n_exchanges, children_cpu_s() - before - start_s, wall_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--procs", type=int, default=1024)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--policy", action="append", help="default: fcfs, easy and conservative")
    args = parser.parse_args()
    jobs = workload(args.jobs, args.procs, args.load)
    requests: list[bytes] = []

    def simulate(ask: Callable[[bytes], bytes]) -> int:
        requests.clear()

        def recorded(raw: bytes) -> bytes:
            requests.append(raw)
            return ask(raw)

        return FakeBatsim(jobs, args.procs).run(recorded).n_messages

    def play(ask: Callable[[bytes], bytes]) -> int:
        for raw in requests:
            ask(raw)
        return len(requests)

    def nothing(ask: Callable[[bytes], bytes]) -> int:
        return FakeBatsim(Workload(), args.procs).run(ask).n_messages

    def server(policy: str) -> list[str]:
        return [sys.executable, "-m", "pybatsched", "--policy", policy, "--endpoint", "tcp://127.0.0.1:*"]

    rows = []
    for policy in args.policy or ["fcfs", "easy", "conservative"]:
        start_s = measure(policy, server(policy), nothing, 0.0).cpu_s
        rows.append(measure(policy, server(policy), simulate, start_s))
    for kind in ("msgspec", "json"):
        command = [sys.executable, "-c", ECHO, kind]
        start_s = measure(kind, command, nothing, 0.0).cpu_s
        rows.append(measure(f"floor: echo with {kind}", command, play, start_s))
    floor = rows[-1]
    print(f"{args.jobs} jobs on {args.procs} processors, offered load {args.load}")
    print(f"{'':24} {'exchanges':>10} {'CPU us/exchange':>16} {'x floor (json)':>15} {'wall s':>8}")
    for row in rows:
        print(f"{row.name:24} {row.n_exchanges:>10} {row.us:>16.1f} {row.us / floor.us:>15.2f} {row.wall_s:>8.1f}")


if __name__ == "__main__":
    main()
