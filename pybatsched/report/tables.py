"""Tables of a page, and how numbers are written in them. All of it is text, never HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Write a table."""
    kinds = [_kind(word) for word in rows[0]] if rows else [""] * len(head)
    cells = "".join(f"<th{kind}>{html.escape(word)}</th>" for word, kind in zip(head, kinds, strict=True))
    return _table(f"<tr>{cells}</tr>", ["".join(map(_cell, row)) for row in rows], name)


def beside(
    groups: Sequence[str], members: Sequence[str], rows: Sequence[tuple[str, Sequence[Sequence[str]]]], name: str = ""
) -> str:
    """Write a table whose columns are in groups, each with the same members: figures of several runs side by side.

    A row is its name, and for each group the values of its members.
    """
    above = "".join(f'<th class="group" colspan="{len(members)}">{html.escape(word)}</th>' for word in groups)
    words = [f"<th{_first(k)}>{html.escape(word)}</th>" for _ in groups for k, word in enumerate(members)]
    head = f'<tr><th rowspan="2"></th>{above}</tr>\n<tr>{"".join(words)}</tr>'
    body = [
        _cell(row) + "".join(f"<td{_first(k)}>{html.escape(word)}</td>" for own in of for k, word in enumerate(own))
        for row, of in rows
    ]
    return _table(head, body, name, ' class="grouped"')


def _first(place: int) -> str:
    return ' class="first"' if place == 0 else ""


def _table(head: str, rows: Sequence[str], name: str, kind: str = "") -> str:
    mark = (f' id="{name}"' if name else "") + kind
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table{mark}><thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(word: str) -> str:
    return f"<td{_kind(word)}>{html.escape(word)}</td>"


def _kind(word: str) -> str:
    return "" if word[:1].isdigit() or word[:1] in {"-", ""} else ' class="text"'


def number(value: Any) -> str:
    """Write a number for people, or what else a figure is.

    >>> number(1234567), number(0.123456), number(2.0), number(None)
    ('1,234,567', '0.1235', '2', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
