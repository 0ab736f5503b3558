"""Define the style of single charts: sizes, fonts, colours, legends and files. This module knows no runs."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pybatsched.errors import InputError, printable, setting
from pybatsched.report.scales import ChartAxis
from pybatsched.results.atomic_files import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Widths of charts by name, in inches: a column and the whole text of a paper with two columns.
WIDTHS: Final = {"column": 3.5, "text": 7.2}
TEXT_IN: Final = WIDTHS["text"]
#: Widths that a user may give, in inches.
_LEAST_IN, _MOST_IN = 2.0, 40.0
#: Charts up to this width have smaller letters and fewer ticks.
_NARROW_IN: Final = 5.0
ENDINGS: Final = (".svg", ".pdf", ".png")
_DPI: Final = 300
#: Colours of runs. Colour-blind readers can distinguish them, and their lightness differs by at least 10 of 100, so
#: that they are also different in grey.
COLORS: Final = ("#0a3f9a", "#e29600", "#000000", "#b0420a", "#8ccdf2", "#2f9a84")
_DASHES: Final = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (12, 3)))
_LEAST_PX: Final = 60  # pixels of an inch on a narrow screen, where a chart is smaller
_INCH: Final = 72.0  # points
GRID: Final = "#e4e4e4"
_SYMLOG: Final = {"linthresh": 1.0, "linscale": 0.5}
_ALONG: Final = 30  # letters that fit along the axis of values
_TURNED: Final = 1.5  # maximum length of a line of a turned name, in inches
_SMALL: Final = 7.0  # size of numbers above categories
_LINE_HEIGHT: Final = 1.25  # of the size of letters
#: Parts of a legend, in multiples of the size of its letters.
_HANDLE, _HANDLE_GAP, _COLUMN_GAP, _ROW_GAP, _BORDER = 2.4, 0.6, 1.6, 0.3, 0.4


def width_of(text: str) -> float:
    """Read the width of a chart in inches: `column`, `text`, or a number. Raises InputError.

    >>> width_of("column"), width_of("5")
    (3.5, 5.0)
    """
    if text in WIDTHS:
        return WIDTHS[text]
    try:
        width = float(text)
    except ValueError:
        width = math.nan
    if not _LEAST_IN <= width <= _MOST_IN:
        names = ", ".join(WIDTHS)
        raise InputError(f"{setting('width', text[:40])}: expected {names} or {_LEAST_IN:g} to {_MOST_IN:g} inches")
    return width


def viridis(shares: Sequence[float]) -> list[str]:
    """Return colours from dark blue at 0 to yellow at 1."""
    to_hex, colors = _matplotlib(".colors").to_hex, _matplotlib().colormaps["viridis"]
    return [to_hex(colors(share)) for share in shares]


def is_narrow(figure: Any) -> bool:
    """Return whether a chart is about as narrow as a column of a paper."""
    return bool(figure.figure.get_figwidth() < _NARROW_IN)  # `figure` of a part is the whole


def font_size(figure: Any) -> float:
    """Return the size of letters of a chart, in points."""
    return 8.0 if is_narrow(figure) else 9.0


def n_ticks(figure: Any) -> int:
    """Return the maximum number of ticks along a chart."""
    return 6 if is_narrow(figure) else 10


def _matplotlib(module: str = "") -> Any:
    """Import matplotlib or a module of it, an extra. Raises InputError."""
    log = logging.getLogger("matplotlib")
    if log.level == logging.NOTSET:
        log.setLevel(logging.ERROR)  # with a read-only home it would warn about its caches
    try:
        return importlib.import_module(f"matplotlib{module}")
    except ImportError:
        raise InputError.not_installed("charts need matplotlib", "plot") from None


@contextlib.contextmanager
def style(width: float = TEXT_IN) -> Iterator[None]:
    """Set the style of all charts of a width while they are created, drawn and written."""
    settings = {
        "svg.hashsalt": "pybatsched",
        "pdf.fonttype": 42,  # TrueType: publishers reject the default
        "ps.fonttype": 42,
        "font.size": 8 if width < _NARROW_IN else 9,
        "axes.titlesize": 8 if width < _NARROW_IN else 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "hatch.linewidth": 0.4,
    }
    with _matplotlib().rc_context(settings):
        yield


@cache
def _figure_class() -> type[Figure]:
    """Return a subclass of matplotlib's Figure that is always written in this style, also by the user's code."""
    _matplotlib()
    from matplotlib.figure import Figure as BaseFigure  # noqa: PLC0415  an extra

    class PaperFigure(BaseFigure):
        """A chart that embeds its fonts as TrueType in all files."""

        def savefig(self, fname: Any, **how: Any) -> None:
            """Write the chart to a file."""
            with style(self.get_figwidth()):
                super().savefig(fname, **how)

        def _repr_png_(self) -> bytes:
            """Return the chart for a notebook."""
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=_DPI / 2)
            return content.getvalue()

    return PaperFigure


def new_figure(width: float, height: float) -> Figure:
    """Create an empty chart of a size in inches. Call it within `style`."""
    return _figure_class()(figsize=(width, height), layout="constrained")


def check_path(path: str | Path) -> None:
    """Raise InputError if a chart cannot be written under this name."""
    if not str(path).endswith(ENDINGS):
        raise InputError(f"{path}: expected a file name that ends in {', '.join(ENDINGS)}")


def write(figure: Any, path: str | Path) -> None:
    """Write a chart atomically to a file: the same drawing gives the same bytes. Raises InputError."""
    check_path(path)
    ending = Path(path).suffix[1:]
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    content = io.BytesIO()  # a full disk would raise a different error for each format
    figure.savefig(content, format=ending, dpi=_DPI, metadata=metadata)
    with whole(path) as temporary:
        temporary.write_bytes(content.getvalue())


def svg(figure: Any) -> str:
    """Return a chart as an SVG element for a page, with its texts as text. URLs of its points become hover texts."""
    content = io.StringIO()
    with style(figure.get_figwidth()), _matplotlib().rc_context({"svg.fonttype": "none"}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    text = content.getvalue().replace("<svg ", f'<svg style="min-width: {_LEAST_PX * figure.get_figwidth():.0f}px" ', 1)
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text[text.index("<svg ") :], flags=re.DOTALL)
    text = re.sub(r'<g id="[a-zA-Z]+_\d+">', "<g>", text)  # an id may occur only once on a page
    return re.sub(r'<a xlink:href="([^"]*)"[^>]*>\s*(.*?)</a>', r"<g><title>\1</title>\2</g>", text, flags=re.DOTALL)


def set_axis(axes: Any, which: Literal["x", "y"], axis: ChartAxis, *, only_powers: bool = False) -> None:
    """Set up an axis of a chart: its scale, ends, ticks and title."""
    ticks, title = axis.ticks(n_ticks(axes.figure) if which == "x" else 6, only_powers=only_powers)
    if axis.is_log:
        getattr(axes, f"set_{which}scale")(axis.kind, **_SYMLOG if axis.kind == "symlog" else {})
    getattr(axes, f"set_{which}lim")(axis.low, axis.high)
    shown: Any = getattr(axes, f"{which}axis")
    shown.set_ticks([at for at, _ in ticks], [text for _, text in ticks])
    shown.set_ticks([], minor=True)
    shown.set_label_text(textwrap.fill(plain(title), _ALONG) if which == "y" else plain(title))


def set_categories(axes: Any, names: Sequence[str], slot: float, ns: Sequence[tuple[int, int]]) -> None:
    """Set up an axis of categories, each `slot` inches wide, with numbers of values at positions above."""
    n = len(names)
    half = max(n, 4) / 2 + 0.1  # a single box is narrower than its panel
    axes.set_xlim((n - 1) / 2 - half, (n - 1) / 2 + half)
    lines, is_turned = category_lines(names, slot)
    axes.set_xticks(range(n), lines, rotation=90 if is_turned else 0, fontsize=font_size(axes.figure))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    texts = [f"n = {one:,}" for _, one in ns]
    if max((text_width(text, _SMALL) for text in texts), default=0.0) > slot - 0.04:
        texts = [f"{one:,}" for _, one in ns]
    above = {
        "transform": axes.get_xaxis_transform(),
        "ha": "center",
        "va": "top",
        "fontsize": _SMALL,
        "color": "#555555",
    }
    for (position, _), text in zip(ns, texts, strict=True):
        axes.text(position, 0.99, text, **above)


def category_lines(names: Sequence[str], slot: float) -> tuple[list[str], bool]:
    """Return names of categories, long ones in several lines, and whether they must be turned."""
    names = [plain(name) for name in names]
    room, size = slot - 0.06, 9.0
    is_turned = any(text_width(word, size) > room for name in names for word in words_of(name))
    return [label_lines(name, _TURNED if is_turned else room, size) for name in names], is_turned


def category_height(names: Sequence[str], slot: float) -> float:
    """Return the height of names of categories in inches."""
    lines, is_turned = category_lines(names, slot)
    return max(text_width(name, 9.0) if is_turned else 0.14 * name.count("\n") for name in lines)


def plain(text: str) -> str:
    """Escape a name for matplotlib (no mathematics), and remove characters that XML cannot contain."""
    return printable(text).replace("$", r"\$")


def line(number: int) -> dict[str, Any]:
    """Return a colour and dashes: lines can be distinguished without colours."""
    n = len(COLORS)
    return {"color": COLORS[number % n], "linestyle": _DASHES[(number + number // n) % n]}


@cache
def _measure() -> tuple[Any, Any]:
    """Return what measures texts, and the class of fonts."""
    return _matplotlib(".textpath").text_to_path, _matplotlib(".font_manager").FontProperties


def text_width(text: str, size: float) -> float:
    """Return the width of the longest line of a text in inches; `size` is that of its letters in points."""
    measure, font = _measure()
    lines = text.replace(r"\$", "$").split("\n")
    widths = [measure.get_text_width_height_descent(one, font(size=size), ismath=False)[0] for one in lines if one]
    return max(widths, default=0.0) / _INCH


def words_of(text: str) -> list[str]:
    """Return the parts between which a label may be broken: after spaces, commas and underscores.

    >>> words_of("my_policy(order=sjf, cores=4)")
    ['my_', 'policy(order=sjf,', ' cores=4)']
    """
    return re.findall(r"\s*[^\s,_]*[,_]+|\s*[^\s,_]+", text)


def label_lines(text: str, width: float, size: float) -> str:
    """Break a label into lines of at most `width` inches, never within a word: a longer word is a line. O(letters)."""
    lines = [""]
    for word in words_of(text):
        longer = lines[-1] + word
        if not lines[-1] or text_width(longer, size) <= width:
            lines[-1] = longer.lstrip()
        else:
            lines.append(word.lstrip())
    return "\n".join(lines)


def wrapped(text: str, width: float, size: float) -> str:
    """Break a text into lines of at most `width` inches: at spaces if possible, else within words. O(letters)."""
    if text_width(text, size) <= width:
        return text
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        for letter in word:
            if lines[-1] and text_width(lines[-1] + letter, size) > width:
                lines.append("")
            lines[-1] += letter
    return "\n".join(lines)


def add_title(axes: Any, text: str) -> None:
    """Write a title above the left end of axes that fill the width of the chart, in several lines if necessary."""
    figure = axes.figure
    points = font_size(figure)
    room = figure.figure.get_figwidth() - (0.7 if is_narrow(figure) else 1.0)
    axes.set_title(wrapped(plain(text), room, points), loc="left", fontsize=points)


def add_legend(figure: Any, handles: Sequence[tuple[str, Any]], loc: str) -> Any:
    """Add a legend of labelled `handles` beside the axes, in at most 4 columns, and make the chart higher by it."""
    size = font_size(figure) - (1.0 if is_narrow(figure) else 0.0)
    width, height = figure.get_size_inches()
    room = width - 2 * _BORDER * size / _INCH - 0.1
    before = (_HANDLE + _HANDLE_GAP) * size / _INCH
    labels = [wrapped(plain(label), room - before, size) for label, _ in handles]
    widths = [before + text_width(label, size) for label in labels]
    n_columns = next((n for n in range(min(len(labels), 4), 1, -1) if _legend_width(widths, n, size) <= room), 1)
    n_rows = -(-len(labels) // n_columns)
    n_lines = sum(max(label.count("\n") + 1 for label in labels[row::n_rows]) for row in range(n_rows))
    added = (n_lines * _LINE_HEIGHT + (n_rows - 1) * _ROW_GAP + 2 * _BORDER) * size / _INCH
    figure.set_size_inches(width, height + added)
    return figure.legend(
        [handle for _, handle in handles],
        labels,
        loc=f"outside {loc}",
        frameon=False,
        ncols=n_columns,
        fontsize=size,
        handlelength=_HANDLE,
        handletextpad=_HANDLE_GAP,
        columnspacing=_COLUMN_GAP,
        labelspacing=_ROW_GAP,
        borderpad=_BORDER,
        borderaxespad=0.0,
    )


def _legend_width(widths: Sequence[float], n_columns: int, size: float) -> float:
    """Return the width of a legend in inches. It is filled column by column."""
    n_rows, n_longer = divmod(len(widths), n_columns)
    ends = [(k + 1) * n_rows + min(k + 1, n_longer) for k in range(n_columns)]
    columns = [widths[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return sum(max(column) for column in columns) + (n_columns - 1) * _COLUMN_GAP * size / _INCH
