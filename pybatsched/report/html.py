"""Write tables and Bokeh charts as HTML, with fixed names of their parts: the same charts give the same bytes."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bokeh.document import Document
from bokeh.models import Plot


def table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Return an HTML table."""
    kinds = [_kind(text) for text in rows[0]] if rows else [""] * len(head)
    cells = "".join(f"<th{kind}>{html.escape(text)}</th>" for text, kind in zip(head, kinds, strict=True))
    return _table(f"<tr>{cells}</tr>", ["".join(map(_cell, row)) for row in rows], name)


def grouped_table(
    groups: Sequence[str], members: Sequence[str], rows: Sequence[tuple[str, Sequence[Sequence[str]]]], name: str = ""
) -> str:
    """Return an HTML table with groups of equal columns; a row has a name, and values for each group."""
    above = "".join(f'<th class="group" colspan="{len(members)}">{html.escape(text)}</th>' for text in groups)
    cells = [f"<th{_first(k)}>{html.escape(text)}</th>" for _ in groups for k, text in enumerate(members)]
    head = f'<tr><th rowspan="2"></th>{above}</tr>\n<tr>{"".join(cells)}</tr>'
    body = [
        _cell(row) + "".join(f"<td{_first(k)}>{html.escape(text)}</td>" for own in of for k, text in enumerate(own))
        for row, of in rows
    ]
    return _table(head, body, name, ' class="grouped"')


def _first(position: int) -> str:
    return ' class="first"' if position == 0 else ""


def _table(head: str, rows: Sequence[str], name: str, kind: str = "") -> str:
    mark = (f' id="{name}"' if name else "") + kind
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table{mark}><thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(text: str) -> str:
    return f"<td{_kind(text)}>{html.escape(text)}</td>"


def _kind(text: str) -> str:
    return "" if text[:1].isdigit() or text[:1] in {"-", ""} else ' class="text"'


def number(value: Any) -> str:
    """Return a figure as text.

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
    """Return the script that draws charts, and their elements (``chart-NAME``) by name. O(size of the charts)."""
    if not charts:
        return "", {}
    document = Document()
    with document.models.freeze():  # otherwise Bokeh visits all charts again for each one
        for chart in charts.values():
            document.add_root(chart)
    content = renumbered(document.to_json(deferred=False), {})
    ids = [root["id"] for root in content["roots"]]
    element_ids = {name: f"chart-{name}" for name in charts}
    item = {"docid": _DOCUMENT, "roots": dict(zip(ids, element_ids.values(), strict=True)), "root_ids": ids}
    data = json.dumps([{_DOCUMENT: content}, [item]], separators=(",", ":")).replace("<", "\\u003c")
    script = (
        '<script>document.addEventListener("DOMContentLoaded", () => Bokeh.safely(() => '
        f"Bokeh.embed.embed_items(...{data})));</script>"
    )
    elements = {
        name: f'<div id="{position}" data-root-id="{id_}" style="display: contents;"></div>'
        for (name, position), id_ in zip(element_ids.items(), ids, strict=True)
    }
    return script, elements


def renumbered(part: Any, names: dict[str, str]) -> Any:
    """Return a document with ids in the order of its parts; references are updated. O(size).

    `names` maps old to new ids; the function fills it.

    >>> renumbered([{"id": "p1007", "axis": {"id": "p1004"}}, {"id": "p1004"}], {})
    [{'id': 'p1', 'axis': {'id': 'p2'}}, {'id': 'p2'}]
    """
    if isinstance(part, list | tuple):  # Bokeh writes a map as pairs
        return [renumbered(one, names) if isinstance(one, list | tuple | dict) else one for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: names.setdefault(value, f"p{len(names) + 1}") if key == "id" else renumbered(value, names)
        for key, value in part.items()
    }
