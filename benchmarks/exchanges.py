"""CPU time per exchange of the server over real ZeroMQ, and of a message alone with cold and warm caches.

    python benchmarks/exchanges.py [--jobs 10000] [--procs 1024] [--load 0.9] [--policy NAME ...] [--messages-only]

Each policy serves a whole simulation to the fake Batsim, in a separate process. The CPU time is that of the server
process without its start-up. The lower bounds are `benchmarks/smallest_fcfs.py`, a scheduler without any checks, and a
process that only receives, parses and answers the same requests, with the standard library's json and with msgspec.

The second table has the median CPU time to handle a message of the same simulation in this process, without a socket.
In between, a cold run reads 8 MB of other memory, as Batsim does while the scheduler waits; a warm run reads none. What
counts over the wire is the cold time. Prints tables without a verdict.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq
from smallest_fcfs import SmallestFcfs

from pybatsched.policies.registry import PolicyPlan, find
from pybatsched.session.session import Session
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


#: Memory that a cold run reads between two messages, one byte of each cache line.
_OTHER: Final = bytearray(8 << 20)
_LINE: Final = 64


def median_us(jobs: Workload, n_procs: int, handle: Callable[[bytes], bytes], *, cold: bool) -> float:
    """Return the median CPU time of this thread in `handle`, in microseconds, over a whole simulation."""
    spans: list[int] = []

    def ask(raw: bytes) -> bytes:
        if cold:
            sum(_OTHER[::_LINE])
        started = time.thread_time_ns()
        reply = handle(raw)
        spans.append(time.thread_time_ns() - started)
        return reply

    FakeBatsim(jobs, n_procs).run(ask)
    return statistics.median(spans) / 1e3


def print_messages(jobs: Workload, n_procs: int, policies: list[str]) -> None:
    """Print the second table."""
    makers: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
        policy: lambda policy=policy: Session(PolicyPlan(find(policy))).handle  # type: ignore[misc]
        for policy in policies
    }
    makers["floor: smallest FCFS"] = lambda: SmallestFcfs().handle
    print(f"{'':24} {'cold us/message':>16} {'warm us/message':>16}")
    for name, make in makers.items():
        cold, warm = (min(median_us(jobs, n_procs, make(), cold=cold) for _ in range(3)) for cold in (True, False))
        print(f"{name:24} {cold:>16.1f} {warm:>16.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--procs", type=int, default=1024)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--policy", action="append", help="default: fcfs, easy and conservative")
    parser.add_argument("--messages-only", action="store_true", help="print only the second table")
    args = parser.parse_args()
    jobs = workload(args.jobs, args.procs, args.load)
    policies = args.policy or ["fcfs", "easy", "conservative"]
    if args.messages_only:
        print_messages(jobs, args.procs, policies)
        return
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
    for policy in policies:
        start_s = measure(policy, server(policy), nothing, 0.0).cpu_s
        rows.append(measure(policy, server(policy), simulate, start_s))
    smallest = [sys.executable, str(Path(__file__).with_name("smallest_fcfs.py"))]
    start_s = measure("smallest", smallest, nothing, 0.0).cpu_s
    rows.append(measure("floor: smallest FCFS", smallest, simulate, start_s))
    for kind in ("msgspec", "json"):
        command = [sys.executable, "-c", ECHO, kind]
        start_s = measure(kind, command, nothing, 0.0).cpu_s
        rows.append(measure(f"floor: echo with {kind}", command, play, start_s))
    floor = rows[-1]
    print(f"{args.jobs} jobs on {args.procs} processors, offered load {args.load}")
    print(f"{'':24} {'exchanges':>10} {'CPU us/exchange':>16} {'x floor (json)':>15} {'wall s':>8}")
    for row in rows:
        print(f"{row.name:24} {row.n_exchanges:>10} {row.us:>16.1f} {row.us / floor.us:>15.2f} {row.wall_s:>8.1f}")
    print()
    print_messages(jobs, args.procs, policies)


if __name__ == "__main__":
    main()
