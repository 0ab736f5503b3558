"""Files that are written completely or not at all, also in directories writable by others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pybatsched.errors import InputError
from pybatsched.results.atomic_files import whole


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".part-{os.getpid()}.table.csv").symlink_to(victim)
    with whole(tmp_path / "table.csv") as half:
        half.write_text("new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "table.csv").read_text() == "new"
    assert not (tmp_path / "table.csv").is_symlink()


def test_a_symbolic_link_at_the_target_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "table.csv").symlink_to(victim)
    with whole(tmp_path / "table.csv") as half:
        half.write_text("new")
    assert (victim.read_text(), (tmp_path / "table.csv").read_text()) == ("precious", "new")


def test_rights_are_those_of_the_umask_and_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole(tmp_path / "a") as half:
            half.write_text("x")
        with pytest.raises(InputError, match="b: cannot be written: gone"), whole(tmp_path / "b"):
            raise OSError("gone")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
