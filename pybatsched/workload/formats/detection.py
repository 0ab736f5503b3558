"""Find the format of a workload file by its content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, Final

from pybatsched.errors import InputError
from pybatsched.workload import progress
from pybatsched.workload.formats.files import BYTE_ORDER_MARK, FORMATS, PARQUET_MAGIC, UTF16, Format, opened, parts_of

#: Separators of columns in a log of Slurm, the likeliest first.
_SEPARATORS: Final = ("|", ",", ";", "\t")
_HEAD: Final = 4096
_LONGEST_HEADER: Final = 1 << 20
#: The start of an array of objects. A file of Batsim is an object.
#: Lines of names and values in braces, without quotes.
_STUDY: Final = re.compile(rb"\{ *[a-z_]+: ?[^\s,{}]+ +[a-z_]+:")
_ARRAY: Final = re.compile(rb"\[\s*\{")


def format_of(path: str | Path, format: str | None = None, mapping: str | None = None) -> Format:  # noqa: A002
    """Return the format of a workload file: the named one, or that of its content.

    A file with a `mapping` is a table, and so are Parquet files, arrays of JSON, and files that start with the columns
    of a public set. Otherwise it is a JSON value, a header of Slurm, another line of columns, else SWF. A directory has
    the parts of a log of Slurm or of a table. Raises InputError.
    """
    if mapping is not None:
        if format is not None:
            raise InputError(f"format {format!r:.40}: cannot be used with a mapping, which is for other tables")
        return "table"
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"format {format!r:.40}: expected one of {', '.join(FORMATS)}")
        return FORMATS[format]
    if Path(path).is_dir():
        return "Slurm" if format_of(parts_of(path)[0]) == "Slurm" else "table"
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: expected a file, which can be read twice, found a pipe or a device")
    with progress.paused(), opened(path) as content:
        while head := content.read(_HEAD):
            text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
            if _STUDY.match(text):
                raise InputError(
                    f"{path}: expected a workload (Batsim JSON, SWF, Slurm or a table), found lines such as "
                    "{ id: 1 subtime: 0 }, the format of a published study; convert the file as the page of that study "
                    'says, or name its reader in a campaign (reader = "MODULE:FUNCTION")'
                )
            if text:
                return _format_of_text(text, content)
    raise InputError(f"{path}: expected a workload (Batsim JSON, SWF, Slurm or a table), found an empty file")


def _format_of_text(text: bytes, rest: BinaryIO) -> Format:
    """Return the format of a file by the start of its content."""
    if text.startswith(PARQUET_MAGIC) or _ARRAY.match(text):
        return "table"
    if text[:2] in UTF16:
        return "Slurm" if b"J\0o\0b\0" in text[:200] or b"\0J\0o\0b" in text[:200] else "SWF"
    while text[:1] not in b";{[" and b"\n" not in text and (more := rest.read(_HEAD)) and len(text) < _LONGEST_HEADER:
        text += more
    if (kind := _kind_of_table(text)) is not None:
        return kind
    return "Batsim JSON" if text[:1] in b'{["' else "SWF"


def _kind_of_table(text: bytes) -> Format | None:
    """Return whether a text starts with the header of a log of Slurm, or as another table; None for neither."""
    if text[:1] in b";{[":
        return None
    line = text.splitlines()[0].decode("latin-1")
    separator = separator_of(line)
    cells = [cell.strip(' "') for cell in (line.split(separator) if separator else line.split())]
    from pybatsched.workload.logs import slurm_columns  # noqa: PLC0415  a workload of Batsim does not need them
    from pybatsched.workload.logs.tables.mapping import detected  # noqa: PLC0415  as above

    if detected(cells) is not None:
        return "table"
    if slurm_columns.is_header(cells):
        return "Slurm"
    if separator is None or len(line.split()) >= 18:
        return None
    return "table" if line.count(separator) >= 3 else None


def separator_of(line: str) -> str | None:
    """Return what separates the columns of a header: |, a comma, a semicolon or a tab."""
    return next((one for one in _SEPARATORS if one in line), None)
