"""Pages of campaigns in a real browser: means, boxes and escaped names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from support import campaigns
from support.browsing import EVIL, browser_of_module, load
from support.process import run_cli

from pybatsched.campaign import table

pytestmark = pytest.mark.browser

browser = browser_of_module


#: Each chart of the page, those of means first: its heading, the hover texts of its points, and its texts.
CHARTS = """const texts = (frame, name) => [...frame.querySelectorAll(name)].map((one) => one.textContent.trim());
return [...document.querySelectorAll(".row > .wide")].map((frame) => [
  frame.querySelector("h3").textContent, texts(frame, "svg title"), texts(frame, "svg text")])"""


def charts(browser: webdriver.Chrome) -> tuple[list[list[Any]], list[list[Any]]]:
    """The charts of means, and those of boxes."""
    found: list[list[Any]] = browser.execute_script(CHARTS)
    half = len(found) // 2
    return found[:half], found[half:]


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
    means, boxes = charts(browser)
    assert [row[0].removeprefix("easy: ") for row in means] == [row[0] for row in boxes]
    assert len(boxes) == 2 * 2 * 4  # two sections, values and ratios, four figures
    title, points, texts = means[0]
    assert (title, len(points)) == ("easy: mean bounded slowdown", 3)
    assert points[0].startswith("conservative (baseline): ")
    assert points[0].endswith(", 3 seeds")
    assert [text for text in texts if text in {"conservative", "(baseline)", "fcfs", "sjf"}][-2:] == ["fcfs", "sjf"]
    assert [len(row[1]) for row in boxes[:2]] == [9, 6]
    assert [len(row[1]) for row in boxes[8:10]] == [6, 3]
    assert re.fullmatch(r"d, seed 1: [\d,.]+", boxes[0][1][0])


def test_a_heading_stays_above_its_own_chart(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Otherwise the end of the heading above could be taken for it."""
    figures = {"n_jobs": 1, **dict.fromkeys(table.SHOWN, 2.0)}
    rows = [campaigns.Row("w", "no reallocation at all of any job", figures), campaigns.Row("w", "mct", figures)]
    campaigns.keep(tmp_path / "long", rows, ["w"])
    assert run_cli("report", str(tmp_path / "long"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    frames = browser.execute_script(
        "return [...document.querySelectorAll('.row > .wide')].map((frame) => [frame.clientWidth, "
        "frame.querySelector('svg').getBoundingClientRect().width])"
    )
    assert len(frames) == 2 * 8
    assert all(width <= of_chart for width, of_chart in frames), frames


def test_two_varied_options_are_drawn_in_groups_and_dots_show_their_week(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    campaigns.scanned(tmp_path / "study", n_weeks=4)
    assert run_cli("report", str(tmp_path / "study"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    _, boxes = charts(browser)
    title, points, texts = boxes[0]
    assert (title, len(points), len(boxes[1][1])) == ("mean bounded slowdown", 2 * 32, 2 * 24)
    assert texts.count("alpha 0.05") == texts.count("alpha 0.1") == 1
    weeks = {f"{name}-week0{week}" for name in ("curie", "ricc") for week in (1, 2, 3, 4)}
    assert {text.partition(":")[0] for text in points} == weeks
    assert [text for text in texts if text in {"0.5", "2", "10"}][-3:] == ["0.5", "2", "10"]
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
    _, (by_policy, by_option) = charts(browser)
    assert (len(by_policy[1]), len(by_option[1])) == (6, 4)
    assert "fcfs" in by_policy[2]
    assert {"[0.2, 2]", "[5, 10]"} <= set(by_option[2])


def test_names_of_a_campaign_are_not_interpreted_as_html(browser: webdriver.Chrome, tmp_path: Path) -> None:
    rows = [campaigns.Row("w", EVIL, {"n_jobs": 1, **dict.fromkeys(table.SHOWN, 2.0)}, {EVIL: k}) for k in (1, 2)]
    campaigns.keep(tmp_path / "evil", rows, ["w"])
    assert run_cli("report", str(tmp_path / "evil"), "--output", str(tmp_path / "c.html")).returncode == 0
    load(browser, tmp_path / "c.html")
    assert browser.title == "made-up"
    assert EVIL in browser.find_elements(By.TAG_NAME, "h2")[2].text
    assert EVIL in browser.find_element(By.ID, "means").text
    assert [len(one) for one in charts(browser)] == [8, 8]
