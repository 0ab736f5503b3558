"""Digests: what tells contents and code from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def digest_of(content: Any) -> str:
    """Give a short digest of anything that JSON can say."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def digest_of_files(root: Path, paths: Iterable[Path]) -> str:
    """Give a digest of files, by their names below a directory and their contents. O(bytes)."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
