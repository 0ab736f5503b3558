"""The archive of logs: downloads, the local copy, and rejected files."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.places import TRACES
from support.process import run_cli

from pybatsched.errors import BrokenPromiseError, PeerLostError
from pybatsched.workload import archive

TEXT = b"; a small log\n1 0 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n"


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A mirror of the archive on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    log = archive.ArchiveLog("small.swf.gz", "l_small", hashlib.sha256(TEXT).hexdigest())
    monkeypatch.setitem(archive.LOGS, log.file, log)
    page = tmp_path / "archive" / "l_small"
    page.mkdir(parents=True)
    (page / log.file).write_bytes(gzip.compress(TEXT, mtime=0))
    with served(tmp_path / "archive") as base:
        yield base, page / log.file


def test_a_log_is_downloaded_once_and_is_right(mirror: tuple[str, Path], tmp_path: Path) -> None:
    base, original = mirror
    path = archive.get("small.swf.gz", tmp_path / "logs", base)
    assert gzip.decompress(path.read_bytes()) == TEXT
    original.unlink()
    assert archive.get("small.swf.gz", tmp_path / "logs", base) == path  # it is there: nothing is asked


@pytest.mark.parametrize("content", [gzip.compress(b"another", mtime=0), gzip.compress(TEXT, mtime=0)[:-4], b"<html>"])
def test_a_download_with_another_content_is_not_kept(content: bytes, mirror: tuple[str, Path], tmp_path: Path) -> None:
    base, original = mirror
    original.write_bytes(content)
    with pytest.raises(BrokenPromiseError, match=r"small\.swf\.gz"):
        archive.get("small.swf.gz", tmp_path / "logs", base)
    assert not list((tmp_path / "logs").glob("*")) if (tmp_path / "logs").exists() else True


def test_an_archive_that_does_not_answer(mirror: tuple[str, Path], tmp_path: Path) -> None:
    base, original = mirror
    original.unlink()
    for where in (base, "http://127.0.0.1:9", "http://nowhere.invalid"):
        with pytest.raises(PeerLostError, match="cannot be reached"):
            archive.get("small.swf.gz", tmp_path / "logs", where)


def test_the_command_lists_logs_and_rejects_unknown_ones(tmp_path: Path) -> None:
    assert "SDSC-DS-2004-2.1-cln.swf.gz" in run_cli("traces", "list").stdout
    done = run_cli("traces", "get", "nothing.swf", "--output", str(tmp_path))
    assert (done.returncode, "unknown log" in done.stderr) == (2, True)
    offline = run_cli("traces", "get", "RICC-2010-2.swf.gz", "--output", str(tmp_path), "--from", "http://127.0.0.1:9")
    assert (offline.returncode, "cannot be reached" in offline.stderr) == (4, True)


@pytest.mark.parametrize("file", archive.LOGS)
def test_local_logs_have_the_known_checksums(file: str) -> None:
    if not (TRACES / file).exists():
        pytest.skip(f"no {file} in {TRACES} (set PYBATSCHED_TRACES)")
    archive.check(TRACES / file)


def test_a_damaged_or_missing_log_is_an_input_error(tmp_path: Path) -> None:
    nowhere = run_cli("reproduce", "dbf", "--traces", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out"))
    assert nowhere.returncode == 2
    assert "there is no such directory" in nowhere.stderr
    missing = run_cli("reproduce", "dbf", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert missing.returncode == 2
    assert "3 logs missing" in missing.stderr
    (tmp_path / "HPC2N-2002-2.2-cln.swf.gz").write_bytes(gzip.compress(b"; not it\n")[:-3])
    damaged = run_cli("reproduce", "dbf", "--traces", str(tmp_path), "--output", str(tmp_path / "out"))
    assert damaged.returncode == 2
    assert "HPC2N-2002-2.2-cln.swf.gz: the gzip data is damaged" in damaged.stderr
