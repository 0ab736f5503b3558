"""Jobs that are over: what became of the last ones, and that there were the others."""

from __future__ import annotations

from typing import Final

from pybatsched.core.ids import IdSet

#: Of so many jobs at the most it is known how they ended and when.
N_LAST_WORDS: Final = 4096


class Departed:
    """The ids of all jobs, and of parts of jobs, that are over. Those that are numbered take no room in the long run.

    To `add` is O(1) on the average; look-ups are O(1) for the last ones and O(log n) for those long over.
    """

    def __init__(self) -> None:
        self._last_words: dict[str, tuple[str, float | None]] = {}
        self._stopped = IdSet()  # by a kill, or to go on under another id
        self._over = IdSet()  # in any other way
        self._has_forgotten = False  # most runs are too short for it, and need not look any further

    def add(self, job_id: str, word: str, at: float | None = None) -> None:
        """Note what became of a job, and when."""
        last_words = self._last_words
        last_words.pop(job_id, None)  # one that went on may end under its own name: it is a last one again
        last_words[job_id] = (word, at)
        if len(last_words) > N_LAST_WORDS:
            self._forget_words()

    def last_word(self, job_id: str) -> str | None:
        """Say what became of a job; None if it is not among these."""
        found = self._last_words.get(job_id)
        if found is not None:
            word, at = found
            return word if at is None else f"{word} at {at}"
        if self._over.has(job_id):  # asked first: what was stopped and has ended all the same has ended
            return "long ago"
        return "killed long ago" if self._stopped.has(job_id) else None

    def was_stopped(self, job_id: str) -> bool:
        """Tell whether a job was ended by a kill, or went on under another id."""
        found = self._last_words.get(job_id)
        if found is not None:
            return _is_stop(found[0])
        return self._stopped.has(job_id) and not self._over.has(job_id)

    def has(self, job_id: str) -> bool:
        """Tell whether a job is among these."""
        if job_id in self._last_words:
            return True
        return self._has_forgotten and (self._over.has(job_id) or self._stopped.has(job_id))

    def _forget_words(self) -> None:
        """Forget the older half of the last words, but for whose they are."""
        kept = list(self._last_words.items())
        half = len(kept) // 2
        for job_id, (word, _) in kept[:half]:
            (self._stopped if _is_stop(word) else self._over).add(job_id)
        self._last_words = dict(kept[half:])
        self._has_forgotten = True


def _is_stop(last_word: str) -> bool:
    return last_word.startswith("went on") or "KILLED" in last_word
