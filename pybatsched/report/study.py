"""Write the sections of a study's page: whether it holds, its claims, published and measured values as charts."""

from __future__ import annotations

import html
import itertools
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from pybatsched.campaign.studies import Claim, StudyOutcome, Verdict
from pybatsched.report.durations import duration_text
from pybatsched.report.html import embedded
from pybatsched.report.run.charts import WIDTH
from pybatsched.report.scales import log_ticks

_COLORS: Final = {"holds": "#1f6fb4", "DOES NOT HOLD": "#c0152f", "not reproducible": "#8a8a8a"}
_CLASSES: Final = {"holds": "holds", "DOES NOT HOLD": "fails"}
_ROW: Final = 22  # height in pixels
_WRAP: Final = 60  # letters of a label
_LOG_FROM: Final = 20.0  # values that differ by this factor need a logarithmic axis
_QUICK: Final = "Quick version on random workloads: it checks trends; the published numbers need the logs."


class ClaimChart(NamedTuple):
    """Claims that are drawn together, with a label for each."""

    title: str
    verdicts: Sequence[Verdict]
    labels: Sequence[str]


def charts_of(outcome: StudyOutcome) -> list[ClaimChart]:
    """Return the charts of a study: measured claims with a published number, by `chart` or source, if several."""
    found: dict[str, list[Verdict]] = {}
    for one in outcome.judged:
        if one.value is not None and one.claim.published is not None:
            found.setdefault(one.claim.chart or one.claim.source, []).append(one)
    groups = [(title, own) for title, own in found.items() if len(own) > 1]
    return [ClaimChart(title, own, short_labels([one.claim.says for one in own])) for title, own in groups]


def short_labels(texts: Sequence[str]) -> list[str]:
    """Return texts without the words that all of them begin or end with.

    >>> short_labels(["KTH: EASY, exact", "KTH: EASY, double"]), short_labels(["FCFS: wait, in s", "EFT: wait, in s"])
    (['exact', 'double'], ['FCFS', 'EFT'])
    """
    if len(set(texts)) < len(texts) or len(texts) < 2:
        return list(texts)
    start, end = _common(texts), _common([text[::-1] for text in texts])[::-1]
    n_start, n_end = start.rfind(" ") + 1, len(end) - end.find(" ") if " " in end else 0
    labels = [text[n_start : len(text) - n_end].rstrip(",:") for text in texts]
    return labels if all(labels) else list(texts)


def _common(texts: Sequence[str]) -> str:
    """Return the start that all texts share: the first and the last in order share it."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def sections_of(outcome: StudyOutcome) -> tuple[str, list[str]]:
    """Return the script that draws the charts of a study, and the sections of its page. O(claims)."""
    charts = charts_of(outcome)
    script, elements = embedded({f"claims-{number}": _drawn(chart) for number, chart in enumerate(charts)})
    frames = [
        f'<div class="wide"><h3>{html.escape(chart.title)}</h3>{element}</div>'
        for chart, element in zip(charts, elements.values(), strict=True)
    ]
    return script, [
        _head(outcome),
        "<h2>Claims</h2>",
        _table(("claim", "published", "measured", "verdict"), outcome.judged, "claims"),
        *_reasons(outcome.judged),
        *(["<h2>Published and measured values</h2>", _LEGEND] if frames else []),
        *frames,
        *_variants(outcome.variants),
        "<h2>Runs</h2>",
    ]


_LEGEND: Final = (
    '<p class="note">Diamonds are published values, with their tolerance as a bar. Dots are measured: blue if the claim'
    " holds, red if it does not hold, grey if it cannot be reproduced.</p>"
)


def overview(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the sections of the page over all studies: a line for each, as `summary_of` returns it."""
    head = "".join(f'<th class="text">{name}</th>' for name in ("study", "about", "result", "time"))
    lines = []
    for row in rows:
        name = f'<a href="{html.escape(row["page"])}">{html.escape(row["name"])}</a>'
        cells = (name, html.escape(row["title"]), html.escape(row["sentence"]), html.escape(row["took"]))
        kinds = ("text", "text", f"text {row['kind']}", "text")
        lines.append("".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, cells, strict=True)))
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    table = f'<table id="studies"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return [f'<div class="wide">{table}</div>']


def summary_of(outcome: StudyOutcome, page: str) -> dict[str, str]:
    """Return the line of a study on the page over all studies. `page` is the address of its own page."""
    return {
        "name": outcome.study.name,
        "title": outcome.study.title,
        "sentence": outcome.sentence,
        "kind": _kind(outcome),
        "took": duration_text(outcome.wall_s),
        "page": page,
    }


def _kind(outcome: StudyOutcome) -> str:
    counts = outcome.counts
    return "fails" if counts["DOES NOT HOLD"] else "holds" if counts["holds"] == counts.total() else "partly"


def _head(outcome: StudyOutcome) -> str:
    quick = f"<small>{_QUICK}</small>" if outcome.is_quick else ""
    took = f"{outcome.n_cells:,} runs in {duration_text(outcome.wall_s)} on {outcome.machine}"
    about = " ".join(outcome.study.about.replace("`", "").split())
    return (
        f'<p class="outcome {_kind(outcome)}">{html.escape(outcome.sentence)}{quick}</p>\n'
        f'<p>{html.escape(about)}</p>\n<p class="note">{html.escape(took)}.</p>'
    )


def _table(head: Sequence[str], verdicts: Sequence[Verdict], name: str) -> str:
    cells = "".join(f"<th{'' if k in (1, 2) else _TEXT}>{text}</th>" for k, text in enumerate(head))
    rows = []
    for one in verdicts:
        kind = _CLASSES.get(one.word, "open")
        row = f'<td class="says" title="{html.escape(one.claim.source)}">{html.escape(one.claim.says)}</td>'
        row += f"<td>{html.escape(one.claim.expected)}</td><td>{html.escape(one.measured)}</td>"
        row += f'<td class="text {kind}">{one.word}</td>' if "verdict" in head else ""
        rows.append(f"<tr>{row}</tr>")
    body = "\n".join(rows)
    return (
        f'<div class="wide"><table class="claims" id="{name}"><thead><tr>{cells}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


_TEXT: Final = ' class="text"'


def _reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """Return why claims cannot be reproduced."""
    reasons = Counter(one.claim.why for one in verdicts if one.claim.why)
    if not reasons:
        return []
    lines = "".join(f"<li>{html.escape(why)} ({n:,})</li>" for why, n in reasons.items())
    return [f'<p class="note">Not reproducible, because:</p>\n<ul class="note">{lines}</ul>']


def _variants(verdicts: Sequence[Verdict]) -> list[str]:
    if not verdicts:
        return []
    note = "Runs of our own that nobody has published. The published value is that of the row which they vary."
    table = _table(("variant", "published for the original", "measured"), verdicts, "variants")
    return ["<h2>Variants of our own</h2>", f'<p class="note">{note}</p>', table]


def _drawn(chart: ClaimChart) -> figure:
    """Draw a chart: a row for each claim, with the published and the measured value. O(claims)."""
    n = len(chart.verdicts)
    places = [float(n - k) for k in range(n)]
    labels = [textwrap.shorten(label, _WRAP, placeholder=" …") for label in chart.labels]
    published = [one.claim.published or 0.0 for one in chart.verdicts]
    spans = [_tolerance(one.claim) for one in chart.verdicts]
    measured = [one.value or 0.0 for one in chart.verdicts]
    values = [*published, *measured]
    is_log = min(values) > 0 and max(values) / min(values) > _LOG_FROM
    low, high = _ends([*values, *(end for span in spans for end in span if not is_log or end > 0)], is_log=is_log)
    drawn = figure(
        width=WIDTH,
        height=70 + _ROW * n,
        x_range=Range1d(start=low, end=high),
        x_axis_type="log" if is_log else "linear",
        y_range=Range1d(start=0.3, end=n + 0.7),
        tools="save",
        toolbar_location=None,
        name="claims",
    )
    drawn.yaxis.ticker = FixedTicker(ticks=places)
    drawn.yaxis.major_label_overrides = dict(zip(places, labels, strict=True))
    drawn.ygrid.grid_line_color = "#eeeeee"
    drawn.yaxis.major_label_text_font_size = drawn.xaxis.major_label_text_font_size = "12px"
    drawn.xaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    if is_log:
        drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=log_ticks(low, high))
    columns: dict[str, Any] = {
        "y": places,
        "published": published,
        "measured": measured,
        "low": [max(span[0], low) for span in spans],
        "high": [span[1] for span in spans],
        "color": [_COLORS.get(one.word, "#8a8a8a") for one in chart.verdicts],
        "says": [one.claim.says for one in chart.verdicts],
        "expected": [one.claim.expected for one in chart.verdicts],
        "found": [one.measured for one in chart.verdicts],
        "verdict": [one.word for one in chart.verdicts],
    }
    source = ColumnDataSource(columns)
    drawn.segment("low", "y", "high", "y", color="#e0a030", line_width=7, alpha=0.35, source=source)
    drawn.segment("published", "y", "measured", "y", color="#aaaaaa", line_width=1, source=source)
    marks: dict[str, Any] = {"size": 13, "fill_color": None, "line_color": "#b06000", "line_width": 2}
    expected = drawn.scatter("published", "y", marker="diamond", source=source, legend_label="published", **marks)
    found = drawn.scatter(
        "measured", "y", size=7, color="color", source=source, legend_label="measured", name="measured"
    )
    drawn.add_layout(drawn.legend[0], "above")
    drawn.legend.orientation = "horizontal"
    drawn.legend.border_line_color = None
    tips = [("", "@says"), ("published", "@expected"), ("measured", "@found"), ("", "@verdict")]
    drawn.add_tools(HoverTool(renderers=[expected, found], tooltips=tips))
    return drawn


def _tolerance(claim: Claim) -> tuple[float, float]:
    """Return the ends of the values that confirm a published number."""
    at = claim.published or 0.0
    allowed = max(claim.tolerance * abs(at), claim.within)
    return at - allowed, at + allowed


def _ends(values: Sequence[float], *, is_log: bool) -> tuple[float, float]:
    """Return the ends of an axis with these values; a linear one includes 0 if all have one sign."""
    low, high = min(values), max(values)
    if is_log:
        margin = (high / low) ** 0.04
        return low / margin, high * margin
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.04 * ((high - low) or 1.0)
    return (low - margin if low < 0 else 0.0), (high + margin if high > 0 else 0.0 if low < 0 else 1.0)
