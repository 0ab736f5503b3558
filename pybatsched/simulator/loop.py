"""The event loop: the clock, processes and one mailbox, and the order of everything that happens at one instant.

Rules
-----
* Only this module moves the clock and selects the next process.
* A process is a generator. It yields a float to sleep until that instant,
  `SOON` to run after all other processes of this instant, or a notice. A notice is posted, and the process continues
  after it has been handled. A float that is not in the future causes no wait.
* A process that has not waited yet may yield `HALT`: the loop stops, `run` returns, and the next call of `run`
  continues with the same process.
* A notice is a pair: a handler, and the argument of the handler. A process posts its last notice with `post` instead
  of yielding it. The effect is the same, and the loop need not resume the process.

How it works (as in Batsim; this decides which events share a message)
----------------------------------------------------------------------
One server takes notices from one first-in-first-out mailbox, one per step. In a step the server handles the oldest
notice. If the mailbox is then empty, it calls `look`, which sends a message if events are pending. Then the sender of
the notice continues, so its next notice is not in the mailbox when `look` is called. Processes that were spawned in
this step start last. When the mailbox is empty, the clock moves to the next wake time. All processes that wake then
resume in the order in which their waits started, and post in that order before any notice is handled.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pybatsched.errors import InputError

Notice: TypeAlias = tuple[Callable[[Any], None], Any]
Process: TypeAlias = Generator[Any, None, None]

#: Two times closer than this are the same instant (the timing precision of SimGrid).
SAME_INSTANT_S: Final = 1e-9


#: The maximum simulated time. A larger number is an input mistake.
END_OF_TIME_S: Final = 1e30

#: Yielded by a process to run after the others that wake or start with it.
SOON: Final = object()
#: Yielded by a starting process to halt the loop until `run` is called again. It is a time in the past, so other
#: yields need no extra check.
HALT: Final = -math.inf


class _Halted(Exception):  # noqa: N818  not an error: it leaves the loop at no cost for other processes
    """A process has halted the loop."""


class Loop:
    """Runs processes until none waits, or to `ends_at` (`is_cut`). O(log waits) per sleep, O(1) per notice."""

    __slots__ = ("_begin", "_held_up", "_look", "_mailbox", "_n_waits", "_waits", "ends_at", "is_cut", "now")

    def __init__(self, look: Callable[[], None], ends_at: float = math.inf) -> None:
        self.now = 0.0
        self.ends_at = ends_at
        self.is_cut = False
        self._look = look
        self._mailbox: deque[tuple[Notice, Process | None]] = deque()
        self._waits: list[tuple[float, int, Process]] = []
        self._n_waits = 0
        self._begin: list[Process] = []
        self._held_up: list[Process] = []  # by a halt: the process that yielded it, and those that start after it

    def serve(self, first: Iterable[Process]) -> None:
        """Start the first processes of the server, which handles the notices."""
        self._begin += first

    def spawn(self, process: Process) -> None:
        """Start a process after the sender of the current notice has continued."""
        self._begin.append(process)

    def post(self, handle: Callable[[Any], None], what: Any) -> None:
        """Post the last notice of a process. O(1)."""
        self._mailbox.append(((handle, what), None))

    def run(self) -> None:
        """Run until no event is left, `ends_at` is reached, or a process halts the loop; the next call continues."""
        try:
            if self._held_up:
                self._let_begin(self._held_up)
            self._run()
        except _Halted:
            return

    def _run(self) -> None:
        mailbox, waits, begin = self._mailbox, self._waits, self._begin
        ends_at = self.ends_at + SAME_INSTANT_S
        look, resume = self._look, self.resume
        while True:
            while mailbox:
                (handle, what), sender = mailbox.popleft()
                handle(what)
                if not mailbox:
                    look()
                if sender is not None:
                    resume(sender)
                if begin:
                    self._let_begin(begin)
            if begin:
                self._let_begin(begin)
                continue
            if not waits:
                return
            if waits[0][0] > ends_at:
                self.now = self.ends_at
                self.is_cut = True
                return
            self._wake()

    def _wake(self) -> None:
        """Move the clock to the next wake time, and resume all processes that wake then."""
        waits = self._waits
        due, seq, process = heappop(waits)
        if due > self.now:
            self.now = due
        if not waits or waits[0][0] > due + SAME_INSTANT_S:
            self.resume(process)
            return
        woken = [(seq, process)]
        while waits and waits[0][0] <= due + SAME_INSTANT_S:
            _, seq, process = heappop(waits)
            woken.append((seq, process))
        woken.sort(key=itemgetter(0))
        for _, process in woken:
            self.resume(process)
        while self._begin:
            self._let_begin(self._begin)

    def _let_begin(self, processes: list[Process]) -> None:
        """Start new processes in this order and empty the list. Processes that these spawn are not started here."""
        beginning = processes[:]
        processes.clear()
        try:
            for process in beginning:
                self.resume(process)
        except _Halted:
            self._held_up += beginning[beginning.index(process) :]
            raise

    def resume(self, process: Process) -> None:
        """Run a process until it waits. A closed process does nothing."""
        for wanted in process:
            if type(wanted) is float:
                if wanted > self.now:
                    if wanted > END_OF_TIME_S:
                        raise InputError(
                            f"event time {wanted:g} s exceeds the maximum simulated time {END_OF_TIME_S:g} s"
                        )
                    self._n_waits += 1
                    heappush(self._waits, (wanted, self._n_waits, process))
                    return
                if wanted == HALT:
                    raise _Halted
            elif wanted is SOON:
                self._begin.append(process)
                return
            else:
                self._mailbox.append((wanted, process))
                return
