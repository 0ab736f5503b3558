"""Write one self-contained HTML file: numbers, charts and the code that draws them. It loads no other file."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

import matplotlib as mpl  # noqa: F401  an extra that all pages need: without it, importing this module fails

from pybatsched.campaign.store import Store
from pybatsched.campaign.studies import StudyOutcome
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.report import study
from pybatsched.report.campaign import page as campaign_page
from pybatsched.report.run import page as run_page
from pybatsched.version import __version__


def of_runs(
    runs: Sequence[SavedRun], histories: Sequence[run_page.JobHistories] = (), tau_s: float = DEFAULT_TAU_S
) -> str:
    """Return the page of one run or several. O(jobs). `histories` are those of the jobs of the first runs."""
    parts = run_page.parts_of(runs, histories, tau_s)
    return _page(parts.title, parts.sections, "page.css", "runs.css")


def of_campaign(store: Store, baseline: str = "") -> str:
    """Return the page of a campaign: means, charts in its file, charts by parameter against a baseline."""
    sections = campaign_page.sections_of(store, baseline)
    return _page(str(store.manifest()["name"]), sections, "page.css")


def of_study(store: Store, outcome: StudyOutcome) -> str:
    """Return the page of a study: whether it holds, its claims, their values, and the page of its campaign."""
    sections = [*study.sections_of(outcome), *campaign_page.sections_of(store)]
    return _page(outcome.study.title, sections, "page.css", "study.css")


def of_studies(rows: Iterable[Mapping[str, str]], *, is_quick: bool = False) -> str:
    """Return the page over all studies, with a line for each (`study.summary_of`)."""
    return _page("Published studies", study.overview(rows, is_quick=is_quick), "page.css", "study.css")


def _page(title: str, sections: Sequence[str], *style_files: str) -> str:
    name, folder = html.escape(title), resources.files("pybatsched.report")
    style = "".join(folder.joinpath(file).read_text(encoding="utf-8") for file in style_files)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{name}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n<h1>{name}</h1>\n"
        + "\n".join(sections)
        + f'\n<p class="note">pybatsched {__version__}</p>\n</body>\n</html>\n'
    )
