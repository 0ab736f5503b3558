"""Opening workload files, compressed or not, with errors that name the file."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from pybatsched.errors import InputError

_GZIP_MAGIC: Final = b"\x1f\x8b"


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, uncompressed where its first two bytes say that it is gzip.

    Whatever goes wrong with the file, here or while the caller reads it, is an InputError that names it.
    """
    try:
        with Path(path).open("rb") as raw:
            if raw.peek(2)[:2] == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=raw) as content:
                    yield cast(BinaryIO, io.BufferedReader(content, 1 << 18))
            else:
                yield cast(BinaryIO, raw)
    except IsADirectoryError:
        raise InputError(f"{path}: expected a workload file, found a directory") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip data is truncated or damaged: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_bytes(path: str | Path) -> bytes:
    """Give the whole content of a file, uncompressed."""
    with opened(path) as content:
        return content.read()


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file, compressed if its name ends in .gz; the same content gives the same bytes.

    A file that is there already is replaced only when the new one is complete.
    """
    target = Path(path)
    if target.suffix == ".gz":
        content = gzip.compress(content, 6, mtime=0)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe or a device: nothing to replace
            return
        half = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            half.write_bytes(content)
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
    except IsADirectoryError:
        raise InputError(f"{path}: cannot be written: it is a directory") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def looks_like_json(path: str | Path) -> bool:
    """Tell whether the first character that is not blank opens a JSON value, as no SWF file begins."""
    with opened(path) as content:
        while head := content.read(4096):
            text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
            if text:
                return text[:1] in b'{["'
    raise InputError(f"{path}: expected a workload (Batsim JSON or SWF), found an empty file")
