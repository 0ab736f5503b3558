"""Time, processes and the one mailbox: the order in which things happen at one instant.

Rules
-----
* Nothing but this module moves the clock or decides who goes on next.
* A process is a generator. It yields a float to sleep until that instant, None to sleep until somebody wakes it
  (`resume`), `SOON` to let all others of this instant go first, or a notice, which is posted, and goes on once the
  notice has been handled. An instant that is not in the future does not make it wait.
* A process that has waited for nothing yet may yield `HALT`: the whole loop stands still, `run` returns, and the next
  `run` goes on with this very process, as if nothing had been.
* A notice is a pair: the function that handles it, and what that is called with. A process that has nothing left to do
  after its last one posts it (`post`) instead of yielding it: all the same, but nobody need be woken to find that out.

Theory of operation (Batsim's own, and why messages are cut where they are)
---------------------------------------------------------------------------
One server takes notices from one first-in-first-out mailbox, one a step. In a step the oldest notice is handled, the
server looks whether it has something to say (`look`; with more notices waiting it says nothing), and only then does the
notice's sender go on: so what the sender posts next is not in the mailbox when the server looks. Processes that the
server has started in this step begin last. When the mailbox is empty the clock moves to the next instant at which
somebody wakes; all who wake then do so in the order in which their waits began, and post in that order before anything
is handled.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from pybatsched.errors import InputError

Notice: TypeAlias = tuple[Callable[[Any], None], Any]
Process: TypeAlias = Generator[Any, None, None]

#: Two instants closer than this are one, as for the engine under Batsim (its timing precision).
SAME_INSTANT_S: Final = 1e-9


#: No clock goes on beyond this: a number that large is a mistake.
END_OF_TIME_S: Final = 1e30

#: Yielded by a process that lets the others go first who wake or begin with it.
SOON: Final = object()
#: Yielded by a process that begins, to halt the loop until `run` is called again. An instant that never was, so that
#: nobody else need be asked whether he wants to halt.
HALT: Final = -math.inf


class _Halted(Exception):  # noqa: N818  no error: what leads out of the loop, at no cost for those who stay in
    """A process has halted the loop."""


class Loop:
    """Runs processes until nobody waits and no notice is left. O(log waits) per sleep, O(1) per notice.

    What would happen after `ends_at` does not happen: then the clock stands there, and `is_cut` is True.
    """

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
        self._held_up: list[Process] = []  # by a halt: who asked for it, and those that were to begin after him

    def spawn(self, process: Process) -> None:
        """Start a process, once the sender of the notice that is being handled has gone on."""
        self._begin.append(process)

    def post(self, handle: Callable[[Any], None], what: Any) -> None:
        """Post the last notice of a process. O(1)."""
        self._mailbox.append(((handle, what), None))

    def wake_at(self, process: Process, at: float, seq: int) -> None:
        """Start a process at an instant, in the place `seq` among those who wake then: an alarm, say.

        Nothing is ever taken back. One pair (at, seq) is given only once.
        """
        heappush(self._waits, (at, seq, process))

    def begin_wait(self) -> int:
        """Give a place in the order of waits, for `wake_at`."""
        self._n_waits += 1
        return self._n_waits

    def run(self) -> None:
        """Run until nothing can happen any more, time ends, or a process halts it; called again, it goes on then."""
        try:
            if self._held_up:
                self._let_begin(self._held_up)
            self._run()
        except _Halted:
            return

    def _run(self) -> None:
        mailbox, waits, begin = self._mailbox, self._waits, self._begin
        ends_at = self.ends_at + SAME_INSTANT_S
        look, go_on = self._look, self.resume
        while True:
            while mailbox:
                (handle, what), sender = mailbox.popleft()
                handle(what)
                if not mailbox:
                    look()
                if sender is not None:
                    go_on(sender)
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
        """Move the clock to the next instant at which somebody wakes, and let all go on who wake then."""
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
        woken.sort(key=_by_wait)
        for _, process in woken:
            self.resume(process)
        while self._begin:
            self._let_begin(self._begin)

    def _let_begin(self, processes: list[Process]) -> None:
        """Start new processes, in this order; those that these start are for the next time. The list is emptied."""
        beginning = processes[:]
        processes.clear()
        try:
            for process in beginning:
                self.resume(process)
        except _Halted:
            self._held_up += beginning[beginning.index(process) :]
            raise

    def resume(self, process: Process) -> None:
        """Let a process run until it waits for something. One that was closed meanwhile does nothing."""
        for wanted in process:
            if type(wanted) is float:
                if wanted > self.now:
                    if wanted > END_OF_TIME_S:
                        raise InputError(f"something would happen at {wanted:g} s; times end at {END_OF_TIME_S:g} s")
                    self._n_waits += 1
                    heappush(self._waits, (wanted, self._n_waits, process))
                    return
                if wanted == HALT:
                    raise _Halted
            elif wanted is None:
                return
            elif wanted is SOON:
                self._begin.append(process)
                return
            else:
                self._mailbox.append((wanted, process))
                return


def _by_wait(entry: tuple[int, Process]) -> int:
    return entry[0]
