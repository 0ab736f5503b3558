"""Bokeh's charts as parts of a page: the same charts give the same bytes.

Bokeh numbers what charts are made of as it comes, on through all charts that a process draws, and gives each place in a
page a random name. So they get names of our own here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bokeh.document import Document
from bokeh.models import Plot

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
