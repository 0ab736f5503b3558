"""Results of a campaign in Python: tables, figures, and how notebooks show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.process import run_cli

import pybatsched as pb
from pybatsched import InputError

SPEC = """
name = "small"
seeds = [1, 2]
[[workload]]
name = "two"
generate = { model = "lublin", procs = 16, jobs = 40, load = 1.5 }
[[platform]]
name = "p"
procs = 16
[[policy]]
name = "fcfs"
[[policy]]
name = "easy"
[policy.options]
order = ["fcfs", "sjf"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("campaign")
    (place / "small.toml").write_text(SPEC)
    done = run_cli("campaign", "run", str(place / "small.toml"), "--output", str(place / "out"))
    assert done.returncode == 0, done.stderr
    return place / "out"


def test_a_campaign_is_shown_as_a_table(folder: Path) -> None:
    campaign = pb.read_campaign(folder)
    n = len(campaign.figures)
    assert repr(campaign) == f"Campaign('{folder}': {n} finished runs: fcfs, easy)"
    page = campaign._repr_html_()
    assert page.count("<tr>") == 1 + 3  # fcfs, and easy with two orders
    assert "mean wait" in page
    mean = campaign.figures.filter(policy="fcfs")["mean_wait_s"].mean()
    assert isinstance(mean, float)
    shown = f"{mean:,.4g}" if mean < 1e4 else f"{mean:,.0f}"
    assert f"<td>{shown}</td>" in page


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda found: found.plot.boxes("nothing"), "measure 'nothing': expected one of "),
        (
            lambda found: found.plot.boxes(only="elsewhere"),
            "^only='elsewhere': expected a workload of the campaign: two",
        ),
        (lambda found: found.plot.boxes(labels={"x": "y"}), "labels: 'x': expected one of fcfs"),
        (lambda found: found.plot.boxes(color="job"), "color: unknown argument; expected one of baseline, policy"),
        (lambda found: found.plot.means(scale=3), "scale: expected one of auto, log, linear, found 3"),
        (lambda found: found.plot.ratios(baseline="lifo"), "lifo"),
        (lambda found: found.summary(by="nothing"), "unknown column 'nothing' to group by"),
        (lambda found: found.summary(ci=95), "confidence level 95"),
        (lambda found: found.report(None), "path: expected a text or a path, found None"),
    ],
)
def test_errors(call: Any, expected: str, folder: Path) -> None:
    with pytest.raises(InputError, match=expected):
        call(pb.read_campaign(folder))


def test_a_summary_warns_of_mixed_groups(folder: Path) -> None:
    campaign = pb.read_campaign(folder)
    with pytest.warns(UserWarning, match="groups contain several values of options: add them to `by`"):
        campaign.summary("policy")
    assert campaign.summary(["policy", "options"]).height == 3


def test_missing_runs_are_a_warning(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    empty = pb.read_campaign(tmp_path)
    assert repr(empty) == f"Campaign('{tmp_path}': 0 finished runs: no policy)"
    assert "no finished run" in empty._repr_html_()
    with pytest.raises(InputError, match="the campaign has no finished cell to show"):
        empty.plot.boxes()
