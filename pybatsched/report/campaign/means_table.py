"""Write tables of means with their confidence intervals as HTML. All names are escaped."""

from __future__ import annotations

import html
import math

from pybatsched.metrics.compare.paired import OTHER_JOBS
from pybatsched.metrics.figure_names import figure_title, name_and_unit
from pybatsched.report.campaign.means import Mean, MeansRow, MeansTable
from pybatsched.report.html import number


def table_html(table: MeansTable, name: str, around: float | None = None) -> str:
    """Return an HTML table: means with half the widths of intervals, bold if on one side of `around`."""
    with_runs = any(row.n_runs != _largest_n(row)[0] for row in table.rows)
    is_wide = [
        figure != "n_jobs" and any(mean is not None and mean.half is not None for mean in column)
        for figure, column in zip(table.figures, zip(*(row.means for row in table.rows), strict=True), strict=True)
    ]
    heads = [f'<th class="text">{html.escape(head)}</th>' for head in table.heads]
    heads += ["<th>runs</th>", "<th>n</th>"] if with_runs else ["<th>n</th>"]
    for figure, wide in zip(table.figures, is_wide, strict=True):
        title = name_and_unit(figure)[0] if table.are_ratios else figure_title(figure)
        heads.append(f"<th{' colspan=2' if wide else ''}>{html.escape(title)}</th>")
    body = []
    for row in table.rows:
        n, text = _largest_n(row)
        cells = [f'<td class="text">{html.escape(name)}</td>' for name in row.names[:-1]]
        mark = f"<br><b>({OTHER_JOBS}: {row.other_jobs})</b>" if row.other_jobs else ""
        cells.append(f'<td class="text" title="{html.escape(row.setting)}">{html.escape(row.names[-1])}{mark}</td>')
        cells += [f"<td>{row.n_runs:,}</td>"] if with_runs else []
        cells.append(f'<td class="n">{text}</td>')
        bold = None if row.other_jobs else around
        cells += [_cells(mean, n, bold, wide=wide) for mean, wide in zip(row.means, is_wide, strict=True)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide beyond"><table class="means" id="{name}"><thead><tr>{"".join(heads)}</tr></thead>\n<tbody>\n'
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )


def _largest_n(row: MeansRow) -> tuple[int, str]:
    """Return the largest n of a row, and its text."""
    return max(((mean.n, mean.n_text) for mean in row.means if mean is not None), default=(0, "-"))


def _cells(mean: Mean | None, n: int, around: float | None, *, wide: bool) -> str:
    """Return the cell of a mean, with its n if below `n`; if `wide`, also a cell with half its interval."""
    if mean is None:
        return "<td>-</td><td></td>" if wide else "<td>-</td>"
    text, half = with_half(mean) if wide else (number(mean.mean), "")
    is_sure = around is not None and mean.half is not None and not mean.low <= around <= mean.high
    tooltip = f' title="{mean.low:,.6g} to {mean.high:,.6g}, n = {mean.n_text}"' if half else ""
    fewer = f" (n = {mean.n:,})" if mean.n < n else ""
    cell = f"<td{tooltip}>{f'<b>{text}</b>' if is_sure else text}{fewer}</td>"
    return f'{cell}<td class="half"{tooltip}>{f"± {half}" if half else ""}</td>' if wide else cell


def with_half(mean: Mean) -> tuple[str, str]:
    """Return a mean and half its interval with equal decimals: at least 4 and 2 significant digits.

    >>> with_half(Mean(3, 92.8712, 143.2)), with_half(Mean(3, 2.0, 2.484)), with_half(Mean(3, 0.6877123, 0.000123))
    (('92.87', '143.20'), ('2.000', '2.484'), ('0.68771', '0.00012'))
    >>> with_half(Mean(3, 95317.4, 148243.2)), with_half(Mean(3, 95317.4, 1.25)), with_half(Mean(1, 0.0, None))
    (('95,317', '148,243'), ('95,317.4', '1.2'), ('0', ''))
    """
    if mean.half is None:
        return number(mean.mean), ""
    digits = max(_digits(mean.mean, 4), _digits(mean.half, 2))
    return f"{mean.mean:,.{digits}f}", f"{mean.half:,.{digits}f}"


def _digits(value: float, n: int) -> int:
    """Return the number of decimals that show n significant digits; at most nine."""
    return min(max(n - 1 - math.floor(math.log10(abs(value))), 0), 9) if value else 0
