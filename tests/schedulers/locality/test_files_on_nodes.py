"""Files on a node: loads, waits for the rest of a load, and files kept without users."""

from __future__ import annotations

import pytest

from pybatsched_schedulers.locality.input_files import Arrival, FilesOnNode, FileStay


def stays(files: FilesOnNode, now: float) -> dict[str, tuple[float, FileStay]]:
    return {name: (size_gb, stay) for name, size_gb, stay in files.stays(now)}


def plain(memory_gb: float = 16) -> FilesOnNode:
    return FilesOnNode(memory_gb, persistent=False)


def keeping(memory_gb: float = 16) -> FilesOnNode:
    return FilesOnNode(memory_gb, persistent=True)


def test_the_first_job_loads_and_later_ones_wait_for_the_rest() -> None:
    files = plain()
    assert files.arrive("f", 4, 8, 100, 150) == Arrival(8, 0, is_reuse=False)
    assert files.arrive("f", 4, 8, 103, 120) == Arrival(0, 5, is_reuse=True)
    assert files.arrive("f", 4, 8, 108, 130) == Arrival(0, 0, is_reuse=True)
    assert files.arrive("g", 4, 8, 108, 130) == Arrival(8, 0, is_reuse=False)  # loads do not slow each other down
    assert not Arrival(8, 0, is_reuse=False).is_reuse
    assert Arrival(0, 5, is_reuse=True).is_reuse
    assert Arrival(0, 0, is_reuse=True).is_reuse


def test_a_file_is_evicted_with_its_last_user_unless_a_job_starts_at_that_instant() -> None:
    for later, found in ((60, Arrival(0, 0, is_reuse=True)), (60.000001, Arrival(8, 0, is_reuse=False))):
        files = plain()
        files.arrive("f", 4, 8, 0, 100)
        files.arrive("f", 4, 8, 5, 100)
        files.leave("f", 50)
        files.leave("f", 60)
        assert files.arrive("f", 4, 8, later, 200) == found


def test_a_load_continues_if_its_job_is_killed_and_others_use_the_file() -> None:
    files = plain()
    files.arrive("f", 4, 8, 0, 5)
    files.arrive("f", 4, 8, 2, 50)
    files.leave("f", 5)
    assert files.arrive("f", 4, 8, 6, 50) == Arrival(0, 2, is_reuse=True)


def test_the_longest_stay_of_each_file() -> None:
    files = plain()
    files.arrive("long", 4, 8, 0, 100)
    files.arrive("long", 4, 8, 1, 30)
    files.arrive("left", 2, 4, 0, 40)
    files.leave("long", 20)
    files.leave("left", 20)
    assert stays(files, 20) == {"long": (4, FileStay(20, 20, 100)), "left": (2, FileStay(20, 20, 20))}
    assert {name: stay for name, _, stay in files.stays(20, {"long": 30})}["long"] == FileStay(20, 20, 30)
    assert stays(files, 21) == {"long": (4, FileStay(21, 21, 100))}
    files.leave("long", 25)
    files.arrive("long", 4, 8, 26, 60)
    assert stays(files, 27) == {"long": (4, FileStay(27, 34, 60))}  # 100 is dropped: no job used it since


def test_room_is_counted_beside_the_files_in_use() -> None:
    files = plain()
    files.arrive("f", 10, 8, 0, 100)
    assert files.fits("g", 6)
    assert not files.fits("g", 6.5)
    assert files.fits("f", 16)  # itself does not count
    files.leave("f", 3)
    assert files.fits("g", 16)


def test_a_persistent_node_evicts_the_least_recently_used_file() -> None:
    files = keeping()
    for name, at in (("a", 0), ("b", 1), ("c", 2)):
        files.arrive(name, 4, 1, at, 50)
    for name, at in (("b", 10), ("a", 11), ("c", 12)):
        files.leave(name, at)
    assert set(stays(files, 20)) == {"a", "b", "c"}
    assert files.arrive("d", 8, 1, 20, 50) == Arrival(1, 0, is_reuse=False)
    assert set(stays(files, 20)) == {"a", "c", "d"}
    assert files.arrive("a", 4, 1, 21, 50) == Arrival(0, 0, is_reuse=True)
    files.arrive("e", 4, 1, 22, 50)
    assert set(stays(files, 22)) == {"a", "d", "e"}  # c was the only one without users


def test_a_persistent_node_does_not_keep_partly_loaded_files() -> None:
    files = keeping()
    files.arrive("cut", 4, 8, 0, 5)
    files.leave("cut", 5)
    assert set(stays(files, 5)) == {"cut"}
    assert files.arrive("cut", 4, 8, 6, 50) == Arrival(8, 0, is_reuse=False)


def test_a_partly_loaded_file_evicts_no_other() -> None:
    files = keeping()
    files.arrive("kept", 8, 1, 0, 50)
    files.arrive("cut", 8, 20, 0, 10)
    files.leave("kept", 5)
    files.leave("cut", 10)
    files.arrive("new", 8, 1, 12, 50)
    assert set(stays(files, 12)) == {"kept", "new"}


@pytest.mark.parametrize("n_users", [1, 2])
def test_an_aborted_load_is_waited_for_at_that_instant_only(n_users: int) -> None:
    files = plain()
    files.arrive("f", 4, 8, 0, 5)
    if n_users == 2:
        assert files.arrive("f", 4, 8, 3, 5) == Arrival(0, 5, is_reuse=True)
        files.leave("f", 5)
    files.leave("f", 5)
    assert stays(files, 5) == {"f": (4, FileStay(5, 8, 5))}
    assert files.arrive("f", 4, 8, 5, 50) == Arrival(0, 3, is_reuse=True)


def test_users_of_a_file_before_it_was_unused_do_not_count() -> None:
    """Not even if another job starts at the instant at which it became unused."""
    files = plain()
    files.arrive("f", 4, 8, 0, 200)
    files.leave("f", 50)
    files.arrive("f", 4, 8, 50, 90)
    assert stays(files, 60) == {"f": (4, FileStay(60, 60, 90))}


@pytest.mark.parametrize("cores", [(16, 1, 1, 2), (3, 7, 10), (1,) * 20, (6, 6, 6, 2), (13, 4, 3)])
def test_files_that_fill_the_memory_exactly_fit(cores: tuple[int, ...]) -> None:
    """6.4 GB a core on 20 cores are 128 GB, however they are added up."""
    files = FilesOnNode(128, persistent=False)
    for index, n in enumerate(cores):
        assert files.fits(str(index), 6.4 * n)
        files.arrive(str(index), 6.4 * n, 64 * n, 0, 1000)
    assert not files.fits("one more", 0.1)


def test_the_first_use_of_an_empty_file_is_no_reuse() -> None:
    files = plain()
    assert files.arrive("f", 0, 0, 0, 50) == Arrival(0, 0, is_reuse=False)
    assert files.arrive("f", 0, 0, 0, 50) == Arrival(0, 0, is_reuse=True)
