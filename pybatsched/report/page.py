"""Write one self-contained HTML file: numbers, charts and the code that draws them. It loads no other file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

from bokeh.resources import INLINE

from pybatsched.campaign.store import Store
from pybatsched.metrics.runs import Run
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.report.campaign import page as campaign_page
from pybatsched.report.run import page as run_page
from pybatsched.version import __version__

_STYLE: Final = """
body { font-family: system-ui, sans-serif; margin: 2em auto; max-width: 1120px; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; } h3 { font-size: 1em; }
table { border-collapse: collapse; font-size: 0.92em; } th, td { padding: 0.25em 0.8em; text-align: right; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid #888; }
td.text, th.text { text-align: left; } td.text { white-space: nowrap; } .wide { overflow-x: auto; }
tbody tr:nth-child(odd) { background: #f5f5f5; } .note { color: #666; font-size: 0.9em; }
.gantt { position: relative; }
.gantt-tip { display: none; position: absolute; background: #fffffff0; border: 1px solid #888; padding: 0.4em 0.7em;
  font-size: 0.85em; white-space: pre-wrap; max-width: 320px; pointer-events: none; z-index: 5; }
.gantt-legend { display: flex; flex-wrap: wrap; gap: 0.3em 1.6em; margin-left: 64px; font-size: 0.85em; }
.gantt-legend canvas { vertical-align: -3px; margin-right: 0.5em; }
.row { display: flex; flex-wrap: wrap; } .row > .wide { width: min-content; min-width: min(500px, 100%); }
.broken { border: 2px solid #b00020; border-radius: 4px; background: #fdecee; color: #7a0016; padding: 0.6em 1em;
  font-weight: bold; } .broken small { display: block; font-weight: normal; }
table.means { font-size: 0.87em; } table.means th, table.means td { padding: 0.25em 0.5em; }
.wide.beyond { width: max-content; max-width: min(50vw + 530px, 100vw - 2em); }
table.means td.half { padding-left: 0; text-align: left; }
.what td { vertical-align: top; text-align: left; white-space: pre-wrap; overflow-wrap: anywhere; }
.what td:first-child { white-space: nowrap; color: #555; } .what th { text-align: left; }
.what tr.differs td:first-child { color: #222; font-weight: bold; }
.what td.code { font-family: ui-monospace, monospace; font-size: 0.88em; } .what td.code span { white-space: nowrap; }
td.half { color: #555; } td.half, td.n { white-space: nowrap; } .row.ends { align-items: flex-end; }
"""


def of_runs(runs: Sequence[Run], histories: Sequence[run_page.JobHistories] = (), tau_s: float = DEFAULT_TAU_S) -> str:
    """Return the page of one run or several. O(jobs). `histories` are those of the jobs of the first runs."""
    parts = run_page.parts_of(runs, histories, tau_s)
    return _page(parts.title, parts.sections, parts.script, run_page.style())


def of_campaign(store: Store, baseline: str = "") -> str:
    """Return the page of a campaign: means, and charts: those in its file, or one of each figure by parameter.

    The baseline of the latter is a policy by its label, or with its options; by default that of the campaign's file, or
    the first policy. With a given baseline, the page always has charts by parameter.
    """
    script, sections = campaign_page.sections_of(store, baseline)
    return _page(str(store.manifest()["name"]), sections, script)


def _page(title: str, sections: Sequence[str], script: str, style: str = "") -> str:
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_STYLE}{style}</style>\n{INLINE.render()}\n{script}\n</head>\n'
        f"<body>\n<h1>{name}</h1>\n"
        + "\n".join(sections)
        + f'\n<p class="note">pybatsched {__version__}</p>\n</body>\n</html>\n'
    )
