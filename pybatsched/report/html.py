"""Bokeh's charts as parts of a page: the same charts give the same bytes.

Bokeh numbers what charts are made of as it comes, on through all charts that a process draws, and gives each place in a
page a random name. So they get names of our own here.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bokeh.document import Document
from bokeh.models import Plot


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
        return f"{value + 0.0:,.0f}"  # no -0
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


#: The name of the document that all charts of a page are in.
_DOCUMENT: Final = "charts"


def embedded(charts: Mapping[str, Plot]) -> tuple[str, dict[str, str]]:
    """Give the script that draws charts, and the element of each by its name. O(size of the charts).

    The elements are called ``chart-`` and the name. Nothing in a chart can end the script.
    """
    if not charts:
        return "", {}
    document = Document()
    with document.models.freeze():  # otherwise Bokeh goes through all charts again with each one
        for chart in charts.values():
            document.add_root(chart)
    content = numbered_anew(document.to_json(deferred=False), {})
    ids = [root["id"] for root in content["roots"]]
    places = {name: f"chart-{name}" for name in charts}
    item = {"docid": _DOCUMENT, "roots": dict(zip(ids, places.values(), strict=True)), "root_ids": ids}
    data = json.dumps([{_DOCUMENT: content}, [item]], separators=(",", ":")).replace("<", "\\u003c")
    script = (
        '<script>document.addEventListener("DOMContentLoaded", () => Bokeh.safely(() => '
        f"Bokeh.embed.embed_items(...{data})));</script>"
    )
    elements = {
        name: f'<div id="{place}" data-root-id="{id_}" style="display: contents;"></div>'
        for (name, place), id_ in zip(places.items(), ids, strict=True)
    }
    return script, elements


def numbered_anew(part: Any, names: dict[str, str]) -> Any:
    """Give a document whose parts are named by the order in which they come in it; references follow. O(size).

    `names` are the new ones by the old ones, and are filled.

    >>> numbered_anew([{"id": "p1007", "axis": {"id": "p1004"}}, {"id": "p1004"}], {})
    [{'id': 'p1', 'axis': {'id': 'p2'}}, {'id': 'p2'}]
    """
    if isinstance(part, list | tuple):  # of a map, Bokeh gives pairs
        return [numbered_anew(one, names) if isinstance(one, list | tuple | dict) else one for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: names.setdefault(value, f"p{len(names) + 1}") if key == "id" else numbered_anew(value, names)
        for key, value in part.items()
    }
