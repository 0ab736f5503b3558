"""The order of things at one instant, rule by rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybatsched.simulator.loop import SAME_INSTANT_S, Loop


class Stage:
    """A loop that notes what happens, and when the server looked."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.looks: list[tuple[Any, bool]] = []
        self.loop = Loop(self.handle, self.look)

    def handle(self, notice: Any) -> None:
        self.heard.append((self.loop.now, notice))
        if callable(notice):
            notice()

    def look(self) -> None:
        self.looks.append((self.heard[-1][1], self.loop.mailbox_is_empty))

    def run(self, *processes: Iterator[Any]) -> list[Any]:
        for process in processes:
            self.loop.spawn(process)  # type: ignore[arg-type]
        self.loop.run()
        return [notice for _, notice in self.heard]


def says(*words: Any) -> Iterator[Any]:
    yield from words


def test_notices_are_delivered_first_in_first_out() -> None:
    assert Stage().run(says("a1", "a2"), says("b1", "b2")) == ["a1", "b1", "a2", "b2"]


def test_what_a_sender_posts_next_is_not_seen_when_the_server_looks() -> None:
    stage = Stage()
    stage.run(says("first", "second"))
    assert stage.looks == [("first", True), ("second", True)]
    stage = Stage()
    stage.run(says("first"), says("other"))
    assert stage.looks == [("first", False), ("other", True)]


def test_equal_instants_wake_in_the_order_in_which_waits_began() -> None:
    assert Stage().run(says(1.0, 3.0, "early"), says(3.0, "first"), says(2.0, 3.0, "late")) == [
        "first",
        "early",
        "late",
    ]


def test_all_who_wake_post_before_anything_is_delivered() -> None:
    stage = Stage()
    stage.run(says(5.0, "a"), says(5.0, "b"))
    assert stage.looks == [("a", False), ("b", True)]
    assert [now for now, _ in stage.heard] == [5.0, 5.0]


def test_instants_a_rounding_error_apart_are_one() -> None:
    stage = Stage()
    stage.run(says(0.1 + 0.2, "sum"), says(0.3, "decimal"))
    assert stage.heard == [(0.3, "sum"), (0.3, "decimal")]
    stage = Stage()
    stage.run(says(1.0 + 2 * SAME_INSTANT_S, "later"), says(1.0, "sooner"))
    assert [notice for _, notice in stage.heard] == ["sooner", "later"]


def test_an_instant_that_is_not_in_the_future_does_not_make_one_wait() -> None:
    stage = Stage()
    stage.run(says(4.0, 2.0, 4.0, "now"))
    assert stage.heard == [(4.0, "now")]


def test_the_sender_goes_on_before_what_its_notice_started() -> None:
    """So the decision that follows a kill overtakes the kill's answer."""
    stage = Stage()

    def start() -> None:
        stage.loop.spawn(says("child"))  # type: ignore[arg-type]

    assert stage.run(says(start, "next"))[1:] == ["next", "child"]


def test_sleepers_are_woken_by_others_and_look_for_themselves() -> None:
    stage = Stage()
    loop = stage.loop
    state = {"go": False}

    def sleeper() -> Iterator[Any]:
        while not state["go"]:
            yield None
        yield "awake"

    process = sleeper()
    seq = loop.begin_wait()
    loop.wake_at(process, 1.0, seq)  # type: ignore[arg-type]
    loop.wake_at(process, 2.0, seq)  # type: ignore[arg-type]

    def permit() -> Iterator[Any]:
        yield 1.5
        state["go"] = True

    stage.run(process, permit())
    assert stage.heard == [(2.0, "awake")]


def test_a_closed_process_does_nothing_any_more() -> None:
    stage = Stage()
    victim = says(3.0, "never")

    def killer() -> Iterator[Any]:
        yield 1.0
        victim.close()  # type: ignore[attr-defined]
        yield "killed"

    assert stage.run(victim, killer()) == ["killed"]
    assert stage.loop.now == 3.0
