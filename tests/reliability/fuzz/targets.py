"""Feed mutated input to readers: allowed results, counts, and descriptions of findings.

A target takes pieces (messages, or the one content of a file) and returns, or raises one of the errors of
`pybatsched.errors`. Anything else is a finding: another exception, more than `CPU_S` of work for one case, or more
memory than there is.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import itertools
import re
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from hypothesis import strategies as st
from support.patience import PATIENCE_S, WorkLimit

from pybatsched.errors import Interrupted, PolicyError, PybatschedError
from reliability.cases import Dice, draw

#: More work than any case may need, in seconds of this process's own processor time: no busy machine reaches it.
CPU_S: Final = PATIENCE_S / 4
#: What a process may take besides what it has when fuzzing begins.
MEMORY_BYTES: Final = 2**30
#: Paths that cannot be opened: `pybatsched.cli.main` reports them as wrong input.
_NO_WAY_THERE: Final = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})
KEPT: Final = Path("build/fuzz")
Whole = TypeVar("Whole", list[bytes], bytes)
#: So many cases are one example of Hypothesis, which takes as long as some cases.
_BATCH: Final = 32
_PLAIN: Final = bytes(20_000)  # behind the bytes of a case: all further choices are the first one


class NotDocumentedError(Exception):
    """Raised by a target for a result that is not documented."""


class _EnoughError(BaseException):
    """Ends the drawing of cases."""


@dataclass(frozen=True)
class Target:
    """Something that reads, and how its input is made.

    `feed` takes the pieces one by one and stops at the first error. `pieces` makes a case from dice: pieces as they
    are, which only lead there, and then mutated ones, as many as are fed (`n_mutated` at most). An error blamed on
    a policy of ours is a finding, unless `plays` is set: the policy only repeats a recording.
    """

    name: str
    pieces: Callable[[Dice], tuple[Sequence[bytes], Iterator[bytes]]]
    feed: Callable[[Iterable[bytes]], object]
    n_mutated: int = 1
    plays: bool = False

    def batches(self) -> st.SearchStrategy[bytes]:
        """Draw the bytes of some cases."""
        n = _BATCH * self._n_bytes()
        return st.binary(min_size=n, max_size=n)

    def cases(self, batch: bytes) -> Iterator[tuple[Sequence[bytes], Iterator[bytes]]]:
        """Return the cases of some bytes."""
        n = self._n_bytes()
        return (self.pieces(Dice(batch[at : at + n] + _PLAIN)) for at in range(0, len(batch), n))

    def _n_bytes(self) -> int:
        return 8 + 16 * self.n_mutated


@dataclass
class Finding:
    """A case with a result that is not allowed."""

    target: str
    seed: int
    index: int
    pieces: list[bytes]
    error: BaseException

    def text(self) -> str:
        """Write it as a whole test, which fails as long as this is found. What was found is a comment before it."""
        lines = [f"FOUND: {self.target}, --seed {self.seed}, case {self.index}"]
        lines += "".join(traceback.format_exception(self.error, limit=-6)).splitlines()
        name = re.sub(r"\W", "_", f"{self.target}_{self.seed}_{self.index}")
        test = f"def test_found_{name}() -> None:\n    feed_again({self.target!r}, {self.pieces!r})\n"
        comments = "".join(f"# {line[:1000]}\n" for line in lines)
        return f"{comments}from reliability.fuzz.__main__ import feed_again\n\n\n{test}"

    def keep(self) -> Path:
        """Write it to a file, from which `--replay` feeds it again."""
        path = KEPT / f"{self.target}-{self.seed}-{self.index}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text())
        return path


@dataclass
class TargetResults:
    """The results of the cases of a target."""

    target: str
    n_cases: int = 0
    n_mutations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, 0)
    peak_mib: int = 0
    findings: list[Finding] = field(default_factory=list)

    def row(self) -> tuple[object, ...]:
        """Return a row of the table."""
        rejected = ", ".join(f"{name} {n:,}" for name, n in sorted(self.outcomes.items()) if name != ACCEPTED)
        slowest = f"{1000 * self.slowest[0]:,.0f} ms (case {self.slowest[1]:,})"
        counts = (self.n_mutations, self.n_cases, self.outcomes[ACCEPTED], rejected or "none")
        return (self.target, *counts, slowest, f"{self.peak_mib:,} MiB", len(self.findings))


HEAD: Final = ("target", "mutations", "cases", "accepted", "rejected", "slowest case", "peak memory", "findings")
ACCEPTED: Final = "accepted"


def outcome(target: Target, pieces: Iterable[bytes]) -> str:
    """Feed a case, and return the result in one word. Raises an exception for a finding."""
    try:
        target.feed(pieces)
    except PolicyError as error:
        if not target.plays:
            raise NotDocumentedError(f"a policy of ours is blamed for what a peer or a file says: {error}") from error
        return type(error).__name__
    except PybatschedError as error:
        if type(error) is PybatschedError or not str(error).strip():
            raise NotDocumentedError("an error of no family, or without a word") from error
        return type(error).__name__
    except OSError as error:
        if error.errno in _NO_WAY_THERE and error.filename is not None:
            return "InputError"
        raise
    return ACCEPTED


def _outcome_or_error(target: Target, pieces: Iterable[bytes], limit: WorkLimit) -> str | BaseException:
    """Feed a case, and return the result in one word, or the exception of a finding."""
    limit.again()
    try:
        return outcome(target, pieces)
    except (KeyboardInterrupt, Interrupted):  # commands make the latter of signals
        raise
    except BaseException as error:  # noqa: BLE001  all others are what we look for
        return error


def _place(error: BaseException) -> tuple[object, ...]:
    """Return where an exception was raised, to identify equal findings."""
    frames = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in frames if "/tests/" not in frame.filename] or list(frames))[-1]
    return type(error), last.filename, last.name, last.lineno


def run(target: Target, n: int, seed: int, *, most: int = 5) -> TargetResults:
    """Feed cases until n mutations have been fed; a few different findings at most."""
    results = TargetResults(target.name)
    found: dict[tuple[object, ...], Finding] = {}

    def play(batch: bytes) -> None:
        for lead, more in target.cases(batch):
            if results.n_mutations >= n or len(found) >= most:
                raise _EnoughError
            fed: list[bytes] = []
            pieces = itertools.chain(lead, itertools.islice(more, min(target.n_mutated, n - results.n_mutations)))
            begun, index = time.process_time(), results.n_cases
            came = _outcome_or_error(target, _noted(pieces, fed), limit)
            results.slowest = max(results.slowest, (time.process_time() - begun, index))
            results.n_cases += 1
            results.n_mutations += max(len(fed) - len(lead), 1)
            results.outcomes[came if isinstance(came, str) else "FOUND"] += 1
            if isinstance(came, BaseException):
                found.setdefault(_place(came), Finding(target.name, seed, index, fed, came))

    with WorkLimit(CPU_S) as limit:
        with contextlib.suppress(_EnoughError):
            draw(target.batches(), f"{seed} {target.name}", n // _BATCH + 2, play)
        results.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        results.findings = [replace(one, pieces=shrunk(target, one, limit)) for one in found.values()]
    return results


def _noted(pieces: Iterable[bytes], fed: list[bytes]) -> Iterator[bytes]:
    """Return the pieces of a case, and note those that were taken."""
    for piece in pieces:
        fed.append(piece)
        yield piece


def shrunk(target: Target, finding: Finding, limit: WorkLimit, n_tries: int = 4000) -> list[bytes]:
    """Leave out pieces, then bytes of the last ones, as long as the same comes out."""
    tries = iter(range(n_tries))

    def still(pieces: list[bytes]) -> bool:
        came = _outcome_or_error(target, pieces, limit) if next(tries, None) is not None else ""
        return isinstance(came, BaseException) and _place(came) == _place(finding.error)

    pieces = finding.pieces
    if not still(pieces):
        return pieces
    pieces = _without(pieces, still)
    for place in range(len(pieces) - 1, -1, -1):
        before, after = pieces[:place], pieces[place + 1 :]
        pieces[place] = bytes(_without(pieces[place], lambda part: still([*before, bytes(part), *after])))  # noqa: B023
    return pieces


def _without(whole: Whole, still: Callable[[Whole], bool]) -> Whole:
    """Leave out parts, large ones first, as long as `still` holds for the rest."""
    size = len(whole) // 2
    while size:
        at = 0
        while at < len(whole):
            rest = whole[:at] + whole[at + size :]
            if rest and still(rest):
                whole = rest
            else:
                at += size
        size //= 2
    return whole


@functools.cache
def scratch() -> Path:
    """Return a directory of this process for what is fed as a file: in memory, where there is room for that."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    made = tempfile.TemporaryDirectory(prefix="pybatsched-fuzz-", dir=place)
    atexit.register(made.cleanup)
    return Path(made.name)


@contextlib.contextmanager
def little_memory(more: int = MEMORY_BYTES) -> Iterator[None]:
    """Let this process have so many bytes more than it has now: then comes a MemoryError, which is a finding."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (n_pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
