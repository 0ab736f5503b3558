"""Compressed files that unpack to more than any log."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import threading
from pathlib import Path

import pytest
import zstandard
from support.patience import PATIENCE_S
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats import files


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", 1000)


def test_a_decompression_bomb_is_rejected_before_unpacking(tmp_path: Path) -> None:
    for name, begin in (("bomb.json.gz", b'{"nb_res": 1, "jobs": [], "profiles": {}, "x": "'), ("bomb.swf.gz", b"; ")):
        path = tmp_path / name
        path.write_bytes(gzip.compress(begin + b"a" * 5_000_000))
        done = run_cli("workload", "lint", str(path))
        assert done.returncode == 2
        assert f"{path}: the data decompresses to more than 200 times its size" in done.stderr


def test_memory_for_unpacking_is_limited() -> None:
    packed = gzip.compress(bytes(2_000_000))
    content = gzip.GzipFile(fileobj=io.BytesIO(packed))
    with pytest.raises(InputError):
        files.LimitedReader(content, lambda: 0, "bomb").read(1_000_000)
    assert content.tell() <= 1_000_000


def test_files_within_the_limit_are_unpacked_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "packed.gz"
    text = b"".join(b"%d " % (n * n * n) for n in range(200_000))
    path.write_bytes(gzip.compress(text))
    assert files.read_bytes(path) == text
    with files.opened(path) as content:
        assert (content.read(7), content.readline(), content.read()) == (text[:7], text[7:], b"")


@pytest.mark.parametrize("is_bomb", [True, False])
def test_a_decompression_bomb_from_a_pipe_is_rejected(tmp_path: Path, *, is_bomb: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"; " + (b"a" * 5_000_000 if is_bomb else bytes(range(32, 127)) * 1000)
    packed = gzip.compress(text if is_bomb else text + os.urandom(20_000))

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write_bytes(packed)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    if is_bomb:
        with pytest.raises(InputError, match="decompresses to more than 200 times its size"):
            files.read_bytes(pipe)
    else:
        assert files.read_bytes(pipe) == gzip.decompress(packed)
    writing.join(PATIENCE_S)
    assert not writing.is_alive()


def test_compressed_files_are_detected_by_their_first_bytes(tmp_path: Path) -> None:
    text = b'{"nb_res": 1, "jobs": [], "profiles": {}}'
    for content, compressed in (
        (text, False),
        (gzip.compress(text), True),
        (zstandard.compress(text), True),
        (b"", False),
    ):
        (tmp_path / "w").write_bytes(content)
        assert files.is_compressed(tmp_path / "w") is compressed
        if content:
            assert files.read_bytes(tmp_path / "w") == text


def test_the_format_of_a_study_is_an_error_that_says_how_to_convert_it(tmp_path: Path) -> None:
    file = tmp_path / "day.txt"
    file.write_text("{ id: 1 subtime: 0 delay: 59578 walltime: 259200 cores: 20 user: u230 data: 1 workload: -1 }\n")
    with pytest.raises(
        InputError, match="convert the file as the page of that study says, or name its reader in a campaign"
    ):
        load(file)
