"""Pages of campaigns in a real browser: means, boxes and escaped names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from support import campaigns
from support.browsing import EVIL, browser_of_module, load
from support.process import run_cli

from pybatsched.campaign import table

pytestmark = pytest.mark.browser

browser = browser_of_module


_FIGURES = """const count = (plot, name) => plot.renderers.find((r) => r.name === name).data_source.get_length();
const plots = Bokeh.documents.flatMap((d) => d.roots());
const of = (are_means) => plots.filter((plot) => plot.name.startsWith("mean") === are_means);
const told = (plot) => [plot.name, plot.title.text, plot.x_range.factors];
"""
#: The boxes and the dots of those that show how values are spread; the means of those that show means.
DRAWN = f'{_FIGURES}return of(false).map((plot) => [...told(plot), count(plot, "boxes"), count(plot, "dots")])'
MEANS = f'{_FIGURES}return of(true).map((plot) => [...told(plot), count(plot, "means")])'


def test_the_page_of_a_campaign(browser: webdriver.Chrome, tmp_path: Path) -> None:
    spec = tmp_path / "s.toml"
    spec.write_text(
        'name = "small"\nseeds = [1, 2, 3]\n[[workload]]\nname = "d"\ngenerate = {procs = 16, jobs = 30}\n'
        '[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\nname = "conservative"\n'
        '[[policy]]\nname = "fcfs"\n[[policy]]\nname = "easy"\noptions = {order = ["fcfs", "sjf"]}\n'
    )
    assert run_cli("campaign", "run", str(spec), "--output", str(tmp_path / "out")).returncode == 0
    assert run_cli("report", str(tmp_path / "out"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    assert browser.find_element(By.TAG_NAME, "h1").text == "small"
    assert "12 of 12 points are done" in browser.find_element(By.TAG_NAME, "body").text
    assert [one.text for one in browser.find_elements(By.TAG_NAME, "h2")] == [
        "Means",
        "Spread over workloads and seeds",
        "easy: by order",
        "By policy",
        "What was run",
    ]
    is_visible = (
        'return ((one) => one.scrollWidth <= one.parentElement.clientWidth)(document.getElementById("differences"))'
    )
    assert browser.execute_script(is_visible)  # with p_adjusted
    first = browser.find_element(By.CSS_SELECTOR, "#means tbody tr").text
    assert re.match(r"conservative 3 seeds 30 [\d,.]+ ± [\d,.]+ ", first)
    means = browser.execute_script(MEANS)
    assert [row[0].replace("mean-ratios", "ratios").replace("means", "boxes") for row in means] == [
        row[0] for row in browser.execute_script(DRAWN)
    ]
    assert means[0] == ["means-mean_bounded_slowdown", "d", ["conservative (baseline)", "fcfs", "sjf"], 3]
    drawn = browser.execute_script(DRAWN)
    assert len(drawn) == 2 * 2 * 4  # two sections, values and ratios, four figures
    assert drawn[0] == ["boxes-mean_bounded_slowdown", "d", ["conservative (baseline)", "fcfs", "sjf"], 3, 9]
    assert drawn[1][:4] == ["ratios-mean_bounded_slowdown", "d", ["fcfs", "sjf"], 2]
    assert drawn[8] == ["boxes-mean_bounded_slowdown", "d", ["conservative", "fcfs"], 2, 6]
    assert drawn[9][2:4] == [["fcfs"], 1]


def test_a_heading_stays_above_its_own_chart(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Otherwise the end of the heading above could be taken for it."""
    figures = {"n_jobs": 1, **dict.fromkeys(table.SHOWN, 2.0)}
    rows = [campaigns.Row("w", "no reallocation at all of any job", figures), campaigns.Row("w", "mct", figures)]
    campaigns.keep(tmp_path / "long", rows, ["w"])
    assert run_cli("report", str(tmp_path / "long"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    frames = browser.execute_script(
        "return [...document.querySelectorAll('.row > .wide')].map((frame) => [frame.clientWidth, "
        "Math.max(...[...frame.children].slice(1).map((own) => own.firstElementChild.offsetWidth))])"
    )
    assert len(frames) == 2 * 8
    assert all(width <= of_chart for width, of_chart in frames), frames


def test_two_varied_options_are_drawn_in_groups_and_dots_show_their_week(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    campaigns.scanned(tmp_path / "study", n_weeks=4)
    assert run_cli("report", str(tmp_path / "study"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    drawn = browser.execute_script(DRAWN)
    assert [row[1] for row in drawn[:4]] == ["curie", "ricc", "curie", "ricc"]
    categories = ["conservative (baseline)", "0.5", "2", "10"]
    assert drawn[0][2:] == [[[f"alpha {a}", t] for a in ("0.05", "0.1") for t in categories], 8, 32]
    assert drawn[2][2:] == [[[f"alpha {a}", t] for a in ("0.05", "0.1") for t in categories[1:]], 6, 24]
    names = browser.execute_script(
        f"{_FIGURES}return of(false)[0].renderers.find((r) => r.name === 'dots').data_source.get('name')"
    )
    assert set(names) == {f"curie-week0{week}" for week in (1, 2, 3, 4)}
    wide = browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert wide  # nothing sticks out of the page


def test_charts_named_in_the_campaign_file_are_drawn(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """As in a study of urgent jobs: the same figure by policy on a logarithmic axis, and over an option."""
    spec = tmp_path / "s.toml"
    spec.write_text(
        'name = "urgent"\nseeds = [1, 2]\n[[workload]]\nname = "d"\ngenerate = {procs = 16, jobs = 60, load = 1.2}\n'
        "urgent = {every_s = 3600, kinds = [[12, 600]]}\n"
        '[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\nname = "fcfs"\n'
        '[[policy]]\nname = "ujfb"\noptions = {swap = "uniform", swap_out = [[5, 10], [0.2, 2]]}\n'
        '[[chart]]\nfigure = "urgent_max_slowdown"\nscale = "log"\n'
        '[[chart]]\nfigure = "urgent_max_slowdown"\nby = "swap_out"\naxis = "own"\n'
        'title = "U_L over swap times"\n'
    )
    assert run_cli("campaign", "run", str(spec), "--output", str(tmp_path / "out")).returncode == 0
    assert run_cli("report", str(tmp_path / "out"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    titles = [one.text for one in browser.find_elements(By.TAG_NAME, "h3")]
    assert titles == ["max slowdown of urgent jobs", "U_L over swap times"] * 2
    settings = ["[0.2, 2]", "[5, 10]"]
    by_policy = ["fcfs", *(f"ujfb swap_out={bounds}" for bounds in settings)]
    assert browser.execute_script(DRAWN) == [
        ["boxes-urgent_max_slowdown", "d", by_policy, 3, 6],
        ["boxes-urgent_max_slowdown", "d", settings, 2, 4],
    ]
    scales = browser.execute_script("return Bokeh.documents.flatMap((d) => d.roots()).map((plot) => plot.y_scale.type)")
    assert scales == ["LogScale", "LinearScale"] * 2


def test_names_of_a_campaign_are_not_interpreted_as_html(browser: webdriver.Chrome, tmp_path: Path) -> None:
    rows = [campaigns.Row("w", EVIL, {"n_jobs": 1, **dict.fromkeys(table.SHOWN, 2.0)}, {EVIL: k}) for k in (1, 2)]
    campaigns.keep(tmp_path / "evil", rows, ["w"])
    assert run_cli("report", str(tmp_path / "evil"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    assert browser.title == "made-up"
    assert EVIL in browser.find_elements(By.TAG_NAME, "h2")[2].text
    assert EVIL in browser.find_element(By.ID, "means").text
    assert len(browser.execute_script(DRAWN)) == 8
