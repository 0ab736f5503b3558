"""Control characters are escaped on a terminal, whatever their source."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from support.patience import PATIENCE_S
from support.terminals import open_terminal

from pybatsched.cli.common import process
from pybatsched.errors import printable

EVIL = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202eback\r"
SHOWN = r"\x1b[31mred\x1b]0;title\x07\x9b2J\u202eback\r"


def test_control_characters_are_escaped() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("ä\tline\nline …") == "ä\tline\nline …"


@pytest.mark.parametrize(
    ("text", "shown"), [(EVIL, SHOWN), ("\r[##] 3\x1b[K", "\r[##] 3\x1b[K"), ("\r\x1b[2J\x1b[K", "\r\\x1b[2J\x1b[K")]
)
def test_a_terminal_gets_only_our_own_control_sequences(text: str, shown: str) -> None:
    ours, theirs = open_terminal()
    with os.fdopen(theirs, "wb", buffering=0) as raw, process._SafeTerminal(io.BufferedWriter(raw), "utf-8") as stream:
        assert stream.write(text) == len(text)
        stream.flush()
        assert os.read(ours, 1000).decode() == shown
    os.close(ours)


def test_output_to_a_file_is_not_escaped() -> None:
    buffer = io.BytesIO()
    stream = process._SafeTerminal(buffer, "utf-8", newline="")
    print(EVIL, file=stream, flush=True)
    assert buffer.getvalue().decode() == f"{EVIL}\n"


def test_characters_missing_in_the_locale_are_written_as_codes() -> None:
    """The help of `simulate` has an ellipsis, which ISO 8859-1 lacks."""
    env = os.environ | {"PYTHONIOENCODING": "iso-8859-1:strict"}
    command = [sys.executable, "-m", "pybatsched", "simulate", "--help"]
    done = subprocess.run(command, capture_output=True, env=env, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2026" in done.stdout
