"""The order of events at one instant, rule by rule."""

from __future__ import annotations

from typing import Any

from pybatsched.simulator.loop import HALT, SAME_INSTANT_S, Loop, Process


class Stage:
    """A loop that records notices, and when the server looked."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.looks: list[Any] = []
        self.loop = Loop(self.look)

    def handle(self, notice: Any) -> None:
        self.received.append((self.loop.now, notice))
        if callable(notice):
            notice()

    def look(self) -> None:
        self.looks.append(self.received[-1][1])

    def posts(self, *items: Any) -> Process:
        """Sleep until floats, post anything else."""
        for item in items:
            yield item if isinstance(item, float) else (self.handle, item)

    def run(self, *processes: Process) -> list[Any]:
        for process in processes:
            self.loop.spawn(process)
        self.loop.run()
        return [notice for _, notice in self.received]


def test_notices_are_delivered_first_in_first_out() -> None:
    stage = Stage()
    assert stage.run(stage.posts("a1", "a2"), stage.posts("b1", "b2")) == ["a1", "b1", "a2", "b2"]


def test_the_server_does_not_yet_see_the_next_notice_of_a_sender() -> None:
    """It looks when the mailbox is empty: between two notices of one sender, not between those of two."""
    stage = Stage()
    stage.run(stage.posts("first", "second"))
    assert stage.looks == ["first", "second"]
    stage = Stage()
    stage.run(stage.posts("first"), stage.posts("other"))
    assert stage.looks == ["other"]


def test_equal_instants_wake_in_the_order_in_which_waits_began() -> None:
    stage = Stage()
    processes = stage.posts(1.0, 3.0, "early"), stage.posts(3.0, "first"), stage.posts(2.0, 3.0, "late")
    assert stage.run(*processes) == ["first", "early", "late"]


def test_all_woken_processes_post_before_any_delivery() -> None:
    stage = Stage()
    stage.run(stage.posts(5.0, "a"), stage.posts(5.0, "b"))
    assert stage.looks == ["b"]
    assert [now for now, _ in stage.received] == [5.0, 5.0]


def test_instants_that_differ_by_a_rounding_error_are_equal() -> None:
    stage = Stage()
    stage.run(stage.posts(0.1 + 0.2, "sum"), stage.posts(0.3, "decimal"))
    assert stage.received == [(0.3, "sum"), (0.3, "decimal")]
    stage = Stage()
    stage.run(stage.posts(1.0 + 2 * SAME_INSTANT_S, "later"), stage.posts(1.0, "sooner"))
    assert [notice for _, notice in stage.received] == ["sooner", "later"]


def test_waiting_for_a_past_instant_continues_immediately() -> None:
    stage = Stage()
    stage.run(stage.posts(4.0, 2.0, 4.0, "now"))
    assert stage.received == [(4.0, "now")]


def test_a_sender_continues_before_the_processes_it_started() -> None:
    """So the decision after a kill comes before the answer to the kill."""
    stage = Stage()

    def start() -> None:
        stage.loop.spawn(stage.posts("child"))

    assert stage.run(stage.posts(start, "next"))[1:] == ["next", "child"]


def test_a_closed_process_does_nothing() -> None:
    stage = Stage()
    victim = stage.posts(3.0, "never")

    def killer() -> Process:
        yield 1.0
        victim.close()
        yield stage.handle, "killed"

    assert stage.run(victim, killer()) == ["killed"]
    assert stage.loop.now == 3.0


def test_pausing_the_loop_does_not_change_the_order_of_events() -> None:
    def halts(stage: Stage, *items: Any) -> Process:
        yield HALT
        yield from stage.posts(*items)

    def all_of(stage: Stage, is_halting: bool) -> list[Process]:
        late = halts(stage, "late") if is_halting else stage.posts("late")
        middle = halts(stage, "b1", "b2") if is_halting else stage.posts("b1", "b2")
        return [stage.posts("a1", lambda: stage.loop.spawn(late), 3.0, "a2"), middle, stage.posts("c1", 2.0, "c2")]

    plain, halting = Stage(), Stage()
    plain.run(*all_of(plain, is_halting=False))
    halting.run(*all_of(halting, is_halting=True))
    items = [item for _, item in halting.received]
    assert items == []  # b paused it, and c has not started before b continued
    halting.loop.run()
    assert [item for _, item in halting.received if isinstance(item, str)] == ["a1", "b1", "c1"]
    halting.loop.run()
    shown = [(at, item) for at, item in halting.received if isinstance(item, str)]
    assert shown == [(at, item) for at, item in plain.received if isinstance(item, str)]
    assert [item for _, item in shown] == ["a1", "b1", "c1", "b2", "late", "c2", "a2"]
    assert [look for look in halting.looks if isinstance(look, str)] == [w for w in plain.looks if isinstance(w, str)]
