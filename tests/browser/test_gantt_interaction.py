"""Gantt charts in a real browser: common time axis, choice of colours, search for a job, segments of a job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from support import preempted
from support.browsing import EVIL, browser_of_module, gantt, load, wheel
from support.patience import wait_until
from support.places import ROOT
from support.process import run_cli

pytestmark = pytest.mark.browser

browser = browser_of_module


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three runs: two policies on one workload of users with and without names, and another workload."""
    folder = tmp_path_factory.mktemp("three")
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    for k, job in enumerate(content["jobs"]):
        job["user"] = EVIL if k % 2 else k % 3
    (folder / "w.json").write_text(json.dumps(content))
    (folder / "other.json").write_text(json.dumps(content | {"jobs": content["jobs"][:10]}))
    for policy, files in (("fcfs", ("w.json",)), ("easy", ("w.json",)), ("conservative", ("other.json", "w.json"))):
        workloads = [text for file in files for text in ("-w", file)]
        args = ("--procs", "32", *workloads, "--policy", policy, "-e", policy, "--journal", f"{policy}.pbj")
        assert run_cli("simulate", *args, cwd=folder).returncode == 0
    done = run_cli("report", "fcfs", "easy", "conservative", "--output", "three.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "three.html"


@pytest.fixture
def page(browser: webdriver.Chrome, three: Path) -> Iterator[webdriver.Chrome]:
    load(browser, three)
    yield browser
    browser.set_window_size(1200, 1000)


#: What each chart and the lines over time show, as [from, to].
TIMES = """return [...Object.values(gantts).map((g) => [g.view.t0, g.view.t1]), lines.queue2.shown]"""


def times(browser: webdriver.Chrome) -> list[list[float]]:
    """The period of each Gantt chart, and of the last line over time as it is painted."""
    painted = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))"
    browser.execute_async_script(painted)
    found: list[list[float]] = browser.execute_script(TIMES)
    return found


def test_all_charts_share_one_time_axis_and_zoom_together(page: webdriver.Chrome) -> None:
    whole = times(page)
    assert len(whole) == 4
    assert whole == [whole[0]] * 4
    wheel(page, page.find_element(By.CSS_SELECTOR, "#gantt1 canvas"), -400, Keys.CONTROL)
    near = times(page)
    assert near == [near[0]] * 4
    assert near[0][1] - near[0][0] < 0.7 * (whole[0][1] - whole[0][0])
    rows = page.execute_script("return Object.values(gantts).map((g) => [g.view.p0, g.view.p1])")
    assert rows == [[0, 32]] * 3
    page.find_element(By.CSS_SELECTOR, "#board button[value='→']").click()
    assert times(page)[2][0] > near[0][0]
    line = page.find_element(By.CSS_SELECTOR, "#queue0 canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", line)
    wheel(page, line, -400, Keys.CONTROL)
    nearer = times(page)
    assert nearer == [nearer[0]] * 4
    assert nearer[0][1] - nearer[0][0] < 0.7 * (near[0][1] - near[0][0])
    ActionChains(page).move_to_element(line).click_and_hold().move_by_offset(-100, 0).release().perform()
    moved = times(page)
    assert moved == [moved[0]] * 4
    assert moved[0][0] > nearer[0][0]
    page.execute_script("board.setTime(100, 200)")
    assert times(page) == [[100, 200]] * 4
    ActionChains(page).move_to_element(line).perform()
    shown = page.find_element(By.CSS_SELECTOR, "#queue0 .gantt-tip").text
    assert shown == page.execute_script("return lines.queue0.told(150)")
    assert re.fullmatch(r".* s to .*: \d+", shown)
    page.find_element(By.CSS_SELECTOR, "#board button[value='all']").click()
    assert times(page) == whole


def test_the_mouse_wheel_zooms_only_with_a_modifier_key(page: webdriver.Chrome) -> None:
    before = times(page)
    canvas = page.find_element(By.CSS_SELECTOR, "#gantt0 canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    at = page.execute_script("return window.scrollY")
    wheel(page, canvas, 200)
    assert times(page) == before
    wait_until(lambda: page.execute_script("return window.scrollY") > at)  # it is the page that it moves
    wheel(page, canvas, -400, Keys.SHIFT)
    rows = page.execute_script("return Object.values(gantts).map((g) => g.view.p1 - g.view.p0)")
    assert rows[0] < 25
    assert rows[1:] == [32, 32]
    assert times(page) == before
    panel = page.find_element(By.CSS_SELECTOR, "#utilisation0 canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", panel)
    wheel(page, panel, -100)
    assert times(page) == before
    assert "Ctrl and the wheel zoom in time" in page.find_element(By.ID, "board").text


#: The colour of the middle of each job in the first chart that is one rectangle.
COLORS = """const g = gantts.gantt0, canvas = document.querySelector("#gantt0 canvas"), v = g.view;
const scale = canvas.width / 1080, tall = canvas.height / scale - 52, found = [];
for (let k = 0; k < 30; k++) {
  const [begin, end, low, high, own] = g.partsOf(k)[0];
  const x = 64 + ((begin + end) / 2 - v.t0) / (v.t1 - v.t0) * 984;
  const y = 8 + (v.p1 - (low + high) / 2) / (v.p1 - v.p0) * tall;
  const seen = canvas.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data;
  if (own.length === 1) found.push([...seen].slice(0, 3).join(", "));
}
return found"""


def test_colours_are_chosen_from_a_list_and_explained_by_a_legend(page: webdriver.Chrome) -> None:
    choice = Select(page.find_element(By.CSS_SELECTOR, "#board select"))
    assert [one.text for one in choice.options] == ["job", "user", "size", "wait", "workload"]
    assert choice.first_selected_option.text == "job"
    assert page.find_elements(By.CSS_SELECTOR, ".shades li") == []
    swatch = "return getComputedStyle(arguments[0].firstChild).backgroundColor"
    for name in ("user", "size", "wait"):
        choice.select_by_visible_text(name)
        page.execute_script("gantts.gantt0.paint()")
        key = {one.text: one for one in page.find_elements(By.CSS_SELECTOR, ".shades li")}
        colors = {page.execute_script(swatch, one)[4:-1] for one in key.values()}
        seen = set(page.execute_script(COLORS))
        assert len(seen) > 1
        assert seen <= colors, name
        if name == "user":
            assert set(key) == {"user 0", "user 1", "user 2", f"user {EVIL}"}
    choice.select_by_visible_text("workload")
    assert [one.text for one in page.find_elements(By.CSS_SELECTOR, ".shades li")] == ["w0", "w1"]
    assert page.title == "fcfs, easy, conservative"


def marked(browser: webdriver.Chrome) -> list[str | None]:
    """The job that is outlined in each chart."""
    found: list[str | None] = browser.execute_script("return Object.values(gantts).map((g) => g.markedJob())")
    return found


def find(browser: webdriver.Chrome, text: str) -> str:
    """Search for a job, and return the message."""
    field = browser.find_element(By.CSS_SELECTOR, "#board input")
    field.clear()
    field.send_keys(text, Keys.ENTER)
    return browser.find_element(By.CSS_SELECTOR, "#board output").text


def test_a_job_is_found_by_its_id(page: webdriver.Chrome) -> None:
    whole = times(page)
    assert find(page, "w0!05") == "job w0!05 of fcfs, 1 of 2"  # that of the third run is of another workload
    assert marked(page) == ["w0!05", "w0!05", None]
    near = times(page)
    begin, end = page.execute_script("return gantts.gantt0.lifetime('w0!05')")
    assert near == [near[0]] * 4
    assert near[0][0] <= begin < end <= near[0][1]
    assert near[0][1] - near[0][0] < whole[0][1] - whole[0][0]
    tip = page.find_element(By.CSS_SELECTOR, "#gantt0 .gantt-tip")
    assert tip.text.startswith("job w0!05")
    assert "submitted: " in tip.text  # the whole story
    assert find(page, "w0!05") == "job w0!05 of conservative, 2 of 2"
    assert marked(page) == [None, None, "w0!05"]
    assert find(page, "w1!29") == "job w1!29 of conservative"
    assert find(page, "29").startswith("job w0!29 of fcfs, 1 of ")
    assert find(page, "joy") == "no job joy ran"
    assert marked(page) == [None] * 3


def test_hovering_outlines_a_job_in_all_runs_of_its_workload(page: webdriver.Chrome) -> None:
    assert find(page, "w0!05") == "job w0!05 of fcfs, 1 of 2"
    found = gantt(page, "const [t0, t1, low] = g.partsOf(g.marked())[0]; return [t0, t1, low, g.view.t0, g.view.t1]")
    middle = (found[0] + found[1]) / 2
    assert gantt(page, f"return g.told(g.at({middle}, {found[2]})).split('\\n')[0]") == "job w0!05"
    page.execute_script("board.find('')")
    assert marked(page) == [None] * 3
    canvas = page.find_element(By.CSS_SELECTOR, "#gantt1 canvas")
    for shift in range(-300, 301, 50):
        ActionChains(page).move_to_element_with_offset(canvas, shift, 0).perform()
        if any(marked(page)):
            break
    first, second, third = marked(page)
    assert first == second
    assert first is not None
    assert third is None
    assert f"job {first}" in page.find_element(By.CSS_SELECTOR, "#gantt1 .gantt-tip").text
    ActionChains(page).move_to_element(page.find_element(By.CSS_SELECTOR, "#board .note")).perform()
    assert marked(page) == [None] * 3


#: How much there is on the layer of outlines in a part of the first chart: points that are not empty.
INKED = """const c = document.querySelector("#gantt0 .gantt-marks"), k = c.width / 1080, g = gantts.gantt0, v = g.view;
const x = (t) => (64 + (t - v.t0) / (v.t1 - v.t0) * 984) * k, [t0, t1] = arguments;
const seen = c.getContext("2d").getImageData(x(t0), 8 * k, x(t1) - x(t0), c.height - 52 * k).data;
return [...seen].filter((value, i) => i % 4 === 3 && value > 100).length"""


def test_parts_of_a_job_have_one_colour_and_are_joined(browser: webdriver.Chrome, tmp_path: Path) -> None:
    preempted.simulated(tmp_path, *preempted.SWAPS)
    assert run_cli("report", "ujfb", "--output", "ujfb.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "ujfb.html")
    assert browser.execute_script(INKED, 30, 100) == 0
    parts: list[Any] = gantt(browser, "board.find('R1'); board.all(); return g.partsOf(g.marked())")
    assert [part[:2] for part in parts] == [[0, 10], [110, 120], [120, 210]]  # it ran, was held, and ran
    browser.execute_script("Object.values(gantts).forEach((g) => g.paint())")
    assert browser.execute_script(INKED, 30, 100) > 100  # a line from the end of the first to the second
    assert browser.execute_script(INKED, 215, 230) == 0
    browser.execute_script("board.find('')")
    assert browser.execute_script(INKED, 30, 100) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59.994, "59.99 s"),
        (59.996, "1 min"),
        (60, "1 min"),
        (3661.5, "1 h 1 min 1.5 s"),
        (86400, "1 d"),
        (1e8 + 7, "1,157 d 9 h 46 min 47 s"),
        (-90, "-1 min 30 s"),
    ],
)
def test_time_is_shown_in_days_and_hours(seconds: float, text: str, page: webdriver.Chrome) -> None:
    assert page.execute_script("return pybatschedClock.text(arguments[0])", seconds) == text


@pytest.mark.parametrize(
    ("span", "ticks"),
    [
        ((0, 100), ["0", "15 s", "30 s", "45 s", "1 min", "1 min 15 s", "1 min 30 s"]),
        ((0, 86400), ["0", "3 h", "6 h", "9 h", "12 h", "15 h", "18 h", "21 h", "1 d"]),
        ((40000, 900000), ["2 d", "4 d", "6 d", "8 d", "10 d"]),
        ((0, 86400 * 700), ["0", "100 d", "200 d", "300 d", "400 d", "500 d", "600 d", "700 d"]),
        (
            (1, 1.004),
            ["1 s", "1.0005 s", "1.001 s", "1.0015 s", "1.002 s", "1.0025 s", "1.003 s", "1.0035 s", "1.004 s"],
        ),
    ],
)
def test_ticks_are_at_whole_lengths_of_time(
    span: tuple[float, float], ticks: list[str], page: webdriver.Chrome
) -> None:
    found = page.execute_script("return pybatschedClock.ticks(arguments[0], arguments[1], 8)", *span)
    assert [label for _, label in found] == ticks
    assert all(span[0] <= at <= span[1] for at, _ in found)


def test_rectangles_below_one_pixel_colour_it_by_their_share(page: webdriver.Chrome) -> None:
    """A quarter and a half of black, and red over a whole point and half of the next."""
    found = page.execute_script(
        """const pixels = new Uint32Array(4).fill(0xffffffff), dust = pybatschedDust(pixels, 4, 1);
        dust.add(0xff000000, 0.1, 0, 0.25, 1); dust.add(0xff000000, 0.5, 0, 0.5, 1); dust.add(0xff0000ff, 2, 0, 1.5, 1);
        dust.add(0xff000000, -5, -5, 5, 5);
        dust.settle();
        return [...pixels].map((one) => one.toString(16))"""
    )
    assert found == ["ff404040", "ffffffff", "ff0000ff", "ff8080ff"]


def test_legends_are_beside_the_charts_if_the_window_is_wide(page: webdriver.Chrome) -> None:
    for width, is_beside in ((1600, True), (1200, False)):
        page.set_window_size(width, 1000)
        side, chart = (page.find_element(By.CSS_SELECTOR, one) for one in ("#board", "#gantt0 canvas"))
        assert (side.location["x"] >= chart.location["x"] + chart.size["width"]) is is_beside
        assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    texts = [one.text for one in page.find_elements(By.CSS_SELECTOR, ".row svg text")]
    assert {"fcfs", "easy", "conservative", "wait", "share of jobs"} <= set(texts)


@pytest.mark.parametrize("width", [400, 700])
def test_charts_are_as_wide_as_a_narrow_window(width: int, page: webdriver.Chrome) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        page.refresh()
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        for name in ("gantt0", "utilisation0", "queue2"):
            assert width - 80 < page.find_element(By.CSS_SELECTOR, f"#{name} canvas").size["width"] < width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_panels_lie_below_the_gantt_charts(page: webdriver.Chrome) -> None:
    """The same instant has the same place in both."""
    canvases = [page.find_element(By.CSS_SELECTOR, f"#{name}0 canvas") for name in ("gantt", "utilisation", "queue")]
    assert len({(canvas.location["x"], canvas.size["width"]) for canvas in canvases}) == 1
    edge = """const one = document.querySelector(`#${arguments[0]} canvas`), k = one.width / 1080;
    return [63, 1048].map((x) => one.getContext("2d").getImageData(x * k, 20 * k, 1, 1).data[3] > 0)"""
    assert [page.execute_script(edge, name) for name in ("gantt0", "utilisation0", "queue2")] == [[True, True]] * 3
