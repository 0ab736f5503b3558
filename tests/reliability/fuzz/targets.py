"""Feed mutated input to readers: allowed results, counts, and descriptions of findings.

A target takes pieces (messages, or the one content of a file) and returns, or raises one of the errors of
`pybatsched.errors`. Anything else is a finding: another exception, more than `CPU_S` of work for one case, or more
memory than there is.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import errno
import functools
import itertools
import json
import re
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
_MAX_SHOWN: Final = 2000  # characters of pieces in a test
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

    @property
    def n_bytes(self) -> int:
        """How many bytes make a case."""
        return 8 + 16 * self.n_mutated

    @property
    def batches(self) -> st.SearchStrategy[bytes]:
        """Draw the bytes of some cases."""
        return st.binary(min_size=_BATCH * self.n_bytes, max_size=_BATCH * self.n_bytes)

    def cases(self, batch: bytes) -> Iterator[tuple[Sequence[bytes], Iterator[bytes]]]:
        """Return the cases of some bytes."""
        for at in range(0, len(batch), self.n_bytes):
            yield self.pieces(Dice(batch[at : at + self.n_bytes] + _PLAIN))


@dataclass
class Finding:
    """A case with a result that is not allowed."""

    target: str
    seed: int
    index: int
    pieces: list[bytes]
    error: BaseException

    @property
    def place(self) -> tuple[str, ...]:
        return _place(self.error)

    def description(self) -> str:
        """Return what was found."""
        lines = traceback.format_exception(self.error, limit=-6)
        return f"FOUND: {self.target}, --seed {self.seed}, case {self.index}\n{''.join(lines)}"

    def as_test(self) -> str:
        """Write it as a whole test, which fails as long as this is found. Large pieces are read from their file."""
        shown, more = f"[{', '.join(map(repr, self.pieces))}]", ""
        if len(shown) > _MAX_SHOWN:
            shown, more = f'pieces_in("{self.path}")', "from reliability.fuzz.targets import pieces_in\n"
        name = re.sub(r"\W", "_", f"{self.target}_{self.seed}_{self.index}")
        return f"""\
from reliability.fuzz.__main__ import again
{more}

def test_found_{name}() -> None:
    again("{self.target}", {shown})
"""

    @property
    def path(self) -> Path:
        return KEPT / f"{self.target}-{self.seed}-{self.index}.json"

    def keep(self) -> Path:
        """Write the pieces to a file, from which `pieces_in` reads them."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        pieces = [base64.b64encode(piece).decode() for piece in self.pieces]
        content = {"target": self.target, "pieces": pieces, "description": self.description()[:20_000]}
        self.path.write_text(json.dumps(content, indent=1))
        return self.path


def pieces_in(path: str | Path) -> list[bytes]:
    """Read the pieces of a finding that was kept."""
    return [base64.b64decode(piece) for piece in json.loads(Path(path).read_text())["pieces"]]


@dataclass
class TargetResults:
    """The results of the cases of a target."""

    target: str
    n_cases: int = 0
    n_mutations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: int = 0
    peak_mib: int = 0
    findings: list[Finding] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """Return a row of the table."""
        refused = ", ".join(f"{name} {n:,}" for name, n in sorted(self.outcomes.items()) if name != ACCEPTED)
        return (
            self.target, f"{self.n_mutations:,}", f"{self.n_cases:,}", f"{self.outcomes[ACCEPTED]:,}",
            refused or "none", f"{1000 * self.slowest_s:,.0f} ms (case {self.slowest:,})", f"{self.peak_mib:,} MiB",
            f"{len(self.findings)}",
        )  # fmt: skip


HEAD: Final = ("target", "mutations", "cases", "accepted", "refused", "slowest case", "peak memory", "findings")
ACCEPTED: Final = "accepted"


def _place(error: BaseException) -> tuple[str, ...]:
    """Return where an exception was raised, to identify equal findings."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/tests/" not in frame.filename] or list(frames)
    last = ours[-1]
    return type(error).__name__, Path(last.filename).name, last.name, str(last.lineno)


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


def run(target: Target, n: int, seed: int, *, most: int = 5) -> TargetResults:
    """Feed cases until n mutations have been fed; a few different findings at most."""
    tally = TargetResults(target.name)
    found: dict[tuple[str, ...], Finding] = {}

    def play(batch: bytes) -> None:
        for lead, more in target.cases(batch):
            if tally.n_mutations >= n or len(found) >= most:
                raise _EnoughError
            limit.again()
            finding = _fed(target, n, seed, lead, more, tally)
            if finding is not None:
                found.setdefault(finding.place, finding)

    with WorkLimit(CPU_S) as limit, contextlib.suppress(_EnoughError):
        draw(target.batches, f"{seed} {target.name}", n // _BATCH + 2, play)
    tally.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for finding in found.values():
        finding.pieces = shrunk(target, finding)
        tally.findings.append(finding)
    return tally


def _fed(
    target: Target, n: int, seed: int, lead: Sequence[bytes], more: Iterator[bytes], tally: TargetResults
) -> Finding | None:
    """Feed a case and count it."""
    fed: list[bytes] = []
    found, index = None, tally.n_cases
    begun = time.process_time()
    try:
        name = outcome(target, _noted(lead, more, min(target.n_mutated, n - tally.n_mutations), fed))
    except (KeyboardInterrupt, Interrupted):  # commands make the latter of signals
        raise
    except BaseException as error:  # noqa: BLE001  all others are what we look for
        name, found = "FOUND", Finding(target.name, seed, index, fed, error)
    taken = time.process_time() - begun
    if taken > tally.slowest_s:
        tally.slowest_s, tally.slowest = taken, index
    tally.n_cases += 1
    tally.n_mutations += max(len(fed) - len(lead), 1)
    tally.outcomes[name] += 1
    return found


def _noted(lead: Sequence[bytes], more: Iterator[bytes], n: int, fed: list[bytes]) -> Iterator[bytes]:
    """Return the pieces of a case, and note those that were taken."""
    for piece in itertools.chain(lead, itertools.islice(more, n)):
        fed.append(piece)
        yield piece


def shrunk(target: Target, finding: Finding, n_tries: int = 4000) -> list[bytes]:
    """Leave out pieces, then bytes of the last ones, as long as the same comes out."""
    tries = iter(range(n_tries))

    def still(pieces: list[bytes]) -> bool:
        if next(tries, None) is None:
            return False
        try:
            with WorkLimit(CPU_S) as limit:
                limit.again()
                outcome(target, pieces)
        except (KeyboardInterrupt, Interrupted):  # commands make the latter of signals
            raise
        except BaseException as error:  # noqa: BLE001  as in run
            return _place(error) == finding.place
        return False

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
