"""What is written into the metadata of jobs: the engine's own facts, and behind them what the policy says."""

from __future__ import annotations


class Notes:
    """The notes of all jobs that are alive, by the ids Batsim knows them by. All is O(1)."""

    def __init__(self) -> None:
        self._facts: dict[str, str] = {}
        self._words: dict[str, str] = {}

    def add_fact(self, wire_id: str, fact: str) -> str:
        """Note a fact (``name=value``, several with semicolons). Gives the whole note."""
        before = self._facts.get(wire_id)
        self._facts[wire_id] = f"{before};{fact}" if before else fact
        return self.of(wire_id)

    def say(self, wire_id: str, words: str) -> str:
        """Note what the policy says now, instead of what it said before. Gives the whole note."""
        self._words[wire_id] = words
        return self.of(wire_id)

    def of(self, wire_id: str) -> str:
        """Give the whole note of a job, or nothing."""
        return ";".join(filter(None, (self._facts.get(wire_id), self._words.get(wire_id))))

    def hand_on(self, wire_id: str, heir: str) -> None:
        """Let what the policy has said of a job be said of the one that runs in its place."""
        words = self._words.pop(wire_id, None)
        if words is not None:
            self._words[heir] = words

    def forget(self, wire_id: str) -> None:
        """Forget a job that is over, or goes on under another id."""
        self._facts.pop(wire_id, None)
        self._words.pop(wire_id, None)
