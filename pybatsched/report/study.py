"""Write the sections of a study's page: whether it holds, its claims, published and measured values as charts."""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched.campaign.studies import Claim, StudyOutcome, Verdict
from pybatsched.report import chart_style
from pybatsched.report.durations import duration_text
from pybatsched.report.scales import ChartAxis, is_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS: Final = {"holds": "#1f6fb4", "DOES NOT HOLD": "#c0152f", "not reproducible": "#8a8a8a"}
_CLASSES: Final = {"holds": "holds", "DOES NOT HOLD": "fails"}
_WIDTH: Final = 9.0  # of charts in inches
_LABEL: Final = 3.6  # maximum width of a line of a label
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


def sections_of(outcome: StudyOutcome) -> list[str]:
    """Return the sections of a study's page. O(claims)."""
    frames = [
        f'<div class="wide"><h3>{html.escape(chart.title)}</h3>{chart_style.svg(drawn(chart))}</div>'
        for chart in charts_of(outcome)
    ]
    return [
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


def overview(rows: Iterable[Mapping[str, Any]], *, is_quick: bool = False) -> list[str]:
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
    note = [f'<p class="note">{_QUICK}</p>'] if is_quick else []
    return [*note, f'<div class="wide">{table}</div>']


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


def axis_of(chart: ClaimChart) -> ChartAxis:
    """Return the axis of a chart: of its published values with their tolerances, and of its measured values."""
    spans = [_tolerance(one.claim) for one in chart.verdicts]
    values = [value or 0.0 for one in chart.verdicts for value in (one.claim.published, one.value)]
    is_logarithmic = is_log(min(values), max(values))
    ends = (end for span in spans for end in span if not is_logarithmic or end > 0)
    low, high = _ends([*values, *ends], is_log=is_logarithmic)
    return ChartAxis(low, high, "log" if is_logarithmic else "linear")


def drawn(chart: ClaimChart) -> Figure:
    """Draw a chart: a row for each claim, with the published and the measured value. O(claims)."""
    n, axis = len(chart.verdicts), axis_of(chart)
    labels = [chart_style.wrapped(chart_style.plain(label), _LABEL, 9.0) for label in chart.labels]
    heights = [0.1 + 0.16 * (label.count("\n") + 1) for label in labels]
    places = [sum(heights[:k]) + heights[k] / 2 for k in range(n)]
    with chart_style.style(_WIDTH):
        figure: Any = chart_style.new_figure(_WIDTH, 0.6 + sum(heights))
        axes = figure.add_subplot()
        published = [one.claim.published or 0.0 for one in chart.verdicts]
        measured = [one.value or 0.0 for one in chart.verdicts]
        low, high = zip(*(_tolerance(one.claim) for one in chart.verdicts), strict=True)
        axes.hlines(places, [max(end, axis.low) for end in low], high, color="#f3d9ac", linewidth=6)
        axes.hlines(places, published, measured, color="#aaaaaa", linewidth=0.8)
        colors = [_COLORS.get(one.word, "#8a8a8a") for one in chart.verdicts]
        marks = {"marker": "D", "facecolors": "none", "edgecolors": "#b06000", "linewidths": 1.3}
        points = [
            axes.scatter(published, places, s=38, zorder=3, label="published", **marks),
            axes.scatter(measured, places, s=22, zorder=4, label="measured", c=colors, linewidths=0),
        ]
        texts = [
            f"{v.claim.says}: published {v.claim.expected}, measured {v.measured}, {v.word}" for v in chart.verdicts
        ]
        for one in points:
            one.set_urls(texts)
        axes.set_yticks(places, labels)
        axes.set_ylim(sum(heights), 0)
        axes.grid(color=chart_style.GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        chart_style.set_axis(axes, "x", axis)
        chart_style.add_legend(figure, [(one.get_label(), one) for one in points], "upper left")
    made: Figure = figure
    return made


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
