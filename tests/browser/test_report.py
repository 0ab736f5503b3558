"""The report page in a real browser: no errors, correct numbers, and a chart with zoom, move and hover."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from support import blocked, file_loads, moved_jobs, preempted
from support.browsing import EVIL, browser_of_module, gantt, load, wheel
from support.places import ROOT
from support.process import run_cli

pytestmark = pytest.mark.browser

browser = browser_of_module


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with journals, of jobs with HTML in their names, and a page of both."""
    folder = tmp_path_factory.mktemp("runs")
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    content["jobs"][3]["id"] = EVIL
    (folder / "w.json").write_text(json.dumps(content))
    for policy in ("fcfs", "easy"):
        args = ("--procs", "32", "-w", "w.json", "--policy", policy, "-e", policy, "--journal", f"{policy}.pbj")
        assert run_cli("simulate", *args, cwd=folder).returncode == 0
    journals = ("--journal", "fcfs.pbj", "--journal", "easy.pbj")
    done = run_cli("report", "fcfs", "easy", *journals, "--output", "both.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_page_loads_nothing_and_has_the_right_numbers(browser: webdriver.Chrome, place: Path) -> None:
    load(browser, place / "both.html")
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []
    cells = {
        row.find_element(By.TAG_NAME, "td").text: [cell.text for cell in row.find_elements(By.TAG_NAME, "td")[1:]]
        for row in browser.find_elements(By.CSS_SELECTOR, "#summary tbody tr")
    }
    figures = [json.loads((place / f"{name}_summary.json").read_text())["figures"] for name in ("fcfs", "easy")]
    assert cells["jobs completed"] == ["30", "30"]
    assert cells["mean wait (s)"] == [f"{one['mean_wait_s']:,.1f}" for one in figures]
    assert cells["max bounded slowdown"] == [f"{one['max_bounded_slowdown']:,.4g}" for one in figures]
    assert cells["utilisation"] == [f"{one['utilisation']:.4g}" for one in figures]


def test_an_incomplete_run_has_a_notice_at_the_top(browser: webdriver.Chrome, place: Path) -> None:
    halting = f"{ROOT / 'tests' / 'support' / 'halting.py'}:Halting"
    options = ("--policy", halting, "-o", "after=5", "-o", "then=raise", "-e", "broken")
    assert run_cli("simulate", "--procs", "32", "-w", "w.json", *options, cwd=place).returncode == 6
    assert run_cli("report", "easy", "broken", "--output", "broken.html", cwd=place).returncode == 7
    load(browser, place / "broken.html")
    (notice,) = browser.find_elements(By.CSS_SELECTOR, "[role=alert]")
    assert notice.is_displayed()
    first, second = notice.text.splitlines()
    assert first == "broken: failed after 5 of 30 jobs"
    assert "decide raised ValueError: that is enough" in second
    assert notice.location["y"] + notice.size["height"] < browser.execute_script("return window.innerHeight") / 2
    load(browser, place / "both.html")
    assert browser.find_elements(By.CSS_SELECTOR, "[role=alert]") == []


def test_names_are_not_interpreted_as_html(browser: webdriver.Chrome, place: Path) -> None:
    load(browser, place / "both.html")
    assert browser.title == "fcfs, easy"
    shown = gantt(browser, "return [...Array(g.n).keys()].map(g.told).join('\\n')")
    assert f"job w0!{EVIL}" in shown


def test_zoom_move_and_reset(browser: webdriver.Chrome, place: Path) -> None:
    load(browser, place / "both.html")
    canvas = browser.find_element(By.CSS_SELECTOR, "#gantt0 canvas")
    whole = gantt(browser, "return Object.assign({}, g.view)")
    wheel(browser, canvas, -400, Keys.CONTROL)
    near = gantt(browser, "return Object.assign({}, g.view)")
    assert near["t1"] - near["t0"] < 0.7 * (whole["t1"] - whole["t0"])
    assert (near["p0"], near["p1"]) == (whole["p0"], whole["p1"])
    ActionChains(browser).move_to_element(canvas).click_and_hold().move_by_offset(-150, 0).release().perform()
    moved = gantt(browser, "return Object.assign({}, g.view)")
    assert moved["t0"] > near["t0"]
    assert moved["t1"] - moved["t0"] == pytest.approx(near["t1"] - near["t0"])
    ActionChains(browser).double_click(canvas).perform()
    assert gantt(browser, "return Object.assign({}, g.view)") == whole


def test_hovering_over_a_job_shows_its_history(browser: webdriver.Chrome, place: Path) -> None:
    load(browser, place / "both.html")
    canvas = browser.find_element(By.CSS_SELECTOR, "#gantt0 canvas")
    tip = browser.find_element(By.CSS_SELECTOR, "#gantt0 .gantt-tip")
    assert not tip.is_displayed()
    for shift in range(-300, 301, 50):
        ActionChains(browser).move_to_element_with_offset(canvas, shift, 0).perform()
        if tip.is_displayed():
            break
    assert tip.text.startswith("job w0!")
    assert "waited" in tip.text
    assert "started on" in tip.text  # from the journal
    ActionChains(browser).move_to_element(browser.find_element(By.TAG_NAME, "h1")).perform()
    assert not tip.is_displayed()


def test_a_hundred_thousand_rectangles_are_painted_and_found(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """The chart is asked directly: benchmarks measure its speed, this test checks its result."""
    head = (
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    )
    head += "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    lines = [f"{head}consumed_energy,metadata"]
    for i in range(100_000):
        start, proc = i // 100 * 10, i % 100
        lines.append(f'{i},w0,d,0,1,20,1,COMPLETED_SUCCESSFULLY,{start},10,{start + 10},{start},{start},1,{proc},-1,""')
    (tmp_path / "big_jobs.csv").write_text("\n".join(lines) + "\n")
    assert run_cli("report", "big", "--output", "big.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "big.html")
    assert gantt(browser, "return g.n") == 100_000
    found = gantt(
        browser, "return [[5, 0.5], [9999.5, 99.5], [5005, 50]].map(([t, p]) => g.told(g.at(t, p)).split('\\n')[0])"
    )
    assert found == ["job w0!0", "job w0!99999", "job w0!50050"]
    assert gantt(browser, "return g.at(10001, 0)") == -1


@pytest.fixture(scope="module")
def urgent_page(browser: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("urgent")
    preempted.simulated(folder, *preempted.SWAPS)
    assert run_cli("report", "ujfb", "--output", "ujfb.html", cwd=folder).returncode == 0
    return folder / "ujfb.html"


#: The colours of a chart at instants and processors, from the canvas itself, as [red, green, blue].
SEEN = """const canvas = document.querySelector("#gantt0 canvas"), pen = canvas.getContext("2d"), v = g.view;
const k = canvas.width / 1080;
return arguments[0].map(([t, p]) => [...pen.getImageData(
  Math.floor(k * (64 + (t - v.t0) / (v.t1 - v.t0) * 984)), Math.floor(k * (8 + (v.p1 - p) / (v.p1 - v.p0) * 388)), 1, 1
).data].slice(0, 3))"""


def seen(browser: webdriver.Chrome, *places: tuple[float, float], width: int = 984) -> list[tuple[int, ...]]:
    """Return the colours at instants and processors; a chart with the names of clusters is narrower than others."""
    found = browser.execute_script(f"const g = window.gantts.gantt0; {SEEN.replace('984', str(width))}", places)
    return [tuple(color) for color in found]


#: The colour of a point of the canvas, and how opaque the points of a part of it are.
PIXELS = """((x, y, w, h) => { const c = document.querySelector("#gantt0 canvas"), k = c.width / 1080;
return [...c.getContext("2d").getImageData(x * k, y * k, w * k, h * k).data].filter((_, i) => i % 4 === 3); })"""
PIXEL = """((x, y) => { const c = document.querySelector("#gantt0 canvas"), k = c.width / 1080;
return [...c.getContext("2d").getImageData(x * k, y * k, 1, 1).data].slice(0, 3); })"""


def test_suspended_and_urgent_jobs_and_held_processors(browser: webdriver.Chrome, urgent_page: Path) -> None:
    load(browser, urgent_page)
    blue, black, white = (31, 119, 180), (16, 16, 16), (255, 255, 255)
    paler = tuple(round(255 - 0.4 * (255 - part)) for part in blue)
    of_r1 = set(seen(browser, *((t / 8, 3.2) for t in range(8, 72))))
    assert of_r1 == {blue, paler}  # stripes
    assert seen(browser, (150, 3)) == [blue]  # its last segment
    assert seen(browser, (15, 3), (115, 3), (15, 5.5)) == [white] * 3  # held, and idle beside it
    frame = set(seen(browser, *((10.15, p / 40) for p in range(10, 190))))
    assert frame == {(80, 80, 80), white}  # dashes
    assert seen(browser, (20.2, 3), (20.2, 6.5), (80.3, 1)) == [black] * 3  # around urgent jobs
    assert len(set(seen(browser, (50, 3), (50, 7)))) == 1  # one colour for a job
    assert seen(browser, (22, 4.9)) == [black]  # the triangle in its corner


def test_hovering_shows_the_preempting_job(browser: webdriver.Chrome, urgent_page: Path) -> None:
    load(browser, urgent_page)
    shown = gantt(
        browser, "return [[5, 3], [15, 3], [50, 7], [115, 3], [150, 3], [230, 3]].map(([t, p]) => g.told(g.at(t, p)))"
    )
    assert [text.split("\n")[:2] for text in shown] == [
        ["job w0!R1", "suspended, preempted by w0!U"],
        ["job w0!U, urgent", "held for 10 s"],
        ["job w0!U, urgent", "held for 10 s before it started"],
        ["job w0!R1", "held for 10 s"],
        ["job w0!R1", "held for 10 s before it started"],
        ["job w0!R2", "completed, 8 processors"],
    ]
    assert "submitted 10 s, held from 10 s to 20 s" in shown[1].split("\n")
    assert "submitted 0 s, this began 0 s, ended 10 s" in shown[0].split("\n")
    assert gantt(browser, "return g.at(15, 5.5)") == -1


def test_the_legend_explains_what_is_there(browser: webdriver.Chrome, urgent_page: Path, place: Path) -> None:
    load(browser, urgent_page)
    entries = browser.find_elements(By.CSS_SELECTOR, ".gantt-legend span")
    assert [entry.text for entry in entries] == [
        "suspended: the job continued later with the rest of its work",
        "processors held for the job that starts there next",
        "urgent job",
    ]
    assert all(entry.find_element(By.TAG_NAME, "canvas").is_displayed() for entry in entries)
    load(browser, place / "both.html")
    assert browser.find_elements(By.CSS_SELECTOR, ".gantt-legend") == []


def test_work_lost_by_a_restart_is_grey(browser: webdriver.Chrome, tmp_path: Path) -> None:
    preempted.simulated(tmp_path, "mode=kill_restart")
    assert run_cli("report", "ujfb", "--output", "ujfb.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "ujfb.html")
    assert seen(browser, (5, 3)) == [(176, 176, 176)]
    assert "preempted by w0!U; this work is lost" in gantt(browser, "return g.told(g.at(5, 3))")
    entries = browser.find_elements(By.CSS_SELECTOR, ".gantt-legend span")
    assert [entry.text for entry in entries] == ["lost: the job was killed, and this work is repeated", "urgent job"]


def test_hosts_that_are_reserved_or_down(browser: webdriver.Chrome, tmp_path: Path) -> None:
    blocked.simulated(tmp_path, "--reservations", "r.toml")
    assert run_cli("report", "blocked", "--output", "blocked.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "blocked.html")
    down, white = {(96, 96, 96), (56, 56, 56)}, (255, 255, 255)
    assert set(seen(browser, *((11 + k / 5, 2.5) for k in range(90)))) == down
    assert set(seen(browser, *((11 + k / 10, 1.5) for k in range(90)))) == down
    assert set(seen(browser, *((81 + k / 5, 3.5) for k in range(90)))) == down
    assert set(seen(browser, *((41 + k / 5, 3.5) for k in range(90)))) == {(232, 232, 232), (180, 180, 180)}
    assert seen(browser, (5, 2.5), (35, 2.5), (50, 1.5), (70, 3.5)) == [white] * 4
    assert not down & set(seen(browser, (25, 1.5), (25, 3.5)))  # a job is there
    assert min(seen(browser, (69.98, 1.5), (70.08, 1.5))) < white  # down for less than a pixel
    entries = browser.find_elements(By.CSS_SELECTOR, ".gantt-legend span")
    assert [entry.text for entry in entries] == [
        "hosts reserved: only jobs of the reservation start there",
        "hosts down: no job starts there",
    ]


def test_loads_are_hatched_and_hovering_shows_file_and_node(browser: webdriver.Chrome, tmp_path: Path) -> None:
    file_loads.simulated(tmp_path)
    assert run_cli("report", "loads", "--output", "loads.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "loads.html")
    shown = gantt(
        browser, "return [[30, 3], [45, 12], [100, 12], [200, 18], [200, 30]].map(([t, p]) => g.told(g.at(t, p)))"
    )
    there = f"file {file_loads.GENOME.replace('=', '-')} on node 0"
    assert [text.split("\n")[:2] for text in shown] == [
        ["job w0!a", f"{there}: loaded in 60 s"],
        ["job w0!b", f"{there}: reused after 30 s of its load by another job"],
        ["job w0!b", f"{there}: reused after 30 s of its load by another job"],
        ["job w0!c", f"{there}: reused"],
        ["job w0!d", "file other on node 1: loaded in 120 s"],
    ]
    assert "submitted 0 s, loading from 0 s to 1 min" in shown[0].split("\n")
    assert "submitted 20 s, this began 1 min, ended 4 min 20 s" in shown[2].split("\n")
    of_a, white = seen(browser, (100, 3))[0], (255, 255, 255)
    for place in (lambda k: (1 + k * 0.9, 3.0), lambda k: (30.0, 1 + k * 0.1)):  # along and across
        assert set(seen(browser, *map(place, range(60)))) == {of_a, white}
    assert set(seen(browser, *((62 + k * 3, 3) for k in range(60)))) == {of_a}
    (entry,) = browser.find_elements(By.CSS_SELECTOR, ".gantt-legend span")
    assert entry.text == "load: the job has its processors, its work starts afterwards"
    canvas = browser.find_element(By.CSS_SELECTOR, "#gantt0 canvas")
    ActionChains(browser).move_to_element_with_offset(canvas, -400, 150).perform()
    tip = browser.find_element(By.CSS_SELECTOR, "#gantt0 .gantt-tip")
    assert there in tip.text  # as text, not as HTML
    assert tip.find_elements(By.TAG_NAME, "b") == []


def test_each_cluster_has_a_band_and_hovering_shows_moves(browser: webdriver.Chrome, tmp_path: Path) -> None:
    moved_jobs.simulated(tmp_path)
    assert run_cli("report", "moved", "--output", "moved.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "moved.html")
    shown = gantt(browser, "return [[50, 5], [50, 20], [250, 15], [50, 36]].map(([t, p]) => g.told(g.at(t, p)))")
    assert [text.split("\n")[:3] for text in shown] == [
        ["job w0!a", "cluster hpc2n, not moved, not resubmitted", "completed, 12 processors"],
        ["job w0!b", "cluster ctc, moved once, resubmitted 4 times", "completed, 15 processors"],
        ["job w0!c", "cluster ctc, moved 3 times, resubmitted 4 times", "completed, 8 processors"],
        ["job w0!d", "cluster sdsc", "completed, 4 processors"],
    ]
    white, tint = (255, 255, 255), (238, 243, 250)
    idle = [(330, 8), (330, 13), (330, 33), (150, 39)]  # in hpc2n, ctc twice, sdsc
    assert seen(browser, *idle, width=912) == [white, tint, tint, white]
    # A line between clusters, all over; names of clusters to the right of it.
    rows = "[12, 34].map((p) => Math.round(8 + (40 - p) / 40 * 388))"
    lines = browser.execute_script(f"return {rows}.map((y) => [70, 500, 970].map((x) => {PIXEL}(x, y)))")
    assert lines == [[[68, 68, 68]] * 3] * 2
    middles = "[6, 23, 37].map((p) => Math.round(8 + (40 - p) / 40 * 388))"
    inked = f"return {middles}.map((y) => {PIXELS}(980, y - 6, 60, 12).some((v) => v > 100))"
    assert browser.execute_script(inked) == [True] * 3
    assert browser.execute_script(f"return {PIXELS}(980, 120, 60, 12).some((v) => v > 100)") is False
    (heading,) = [one for one in browser.find_elements(By.TAG_NAME, "h2") if one.text == "Jobs moved most"]
    assert heading.is_displayed()
    listed = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#moved0 tbody tr")]
    assert listed == ["w0!c 3 4 ctc 195", "w0!e 3 3 sdsc 290", "w0!b 1 4 ctc 0", f"w0!{moved_jobs.EVIL} 0 2 hpc2n 70"]


def test_clusters_that_are_mixed_are_drawn_together(browser: webdriver.Chrome, tmp_path: Path) -> None:
    (tmp_path / "mixed.xml").write_text(moved_jobs.MIXED)
    sizes = ((3, "100", "odd"), (2, "50", "even"), (1, "80", "even"))
    jobs: list[dict[str, object]] = [
        {"id": k, "subtime": 0, "res": n, "walltime": 200, "profile": s, "cluster": c}
        for k, (n, s, c) in enumerate(sizes)
    ]
    moved_jobs.run(tmp_path, "mixed.xml", jobs)
    assert run_cli("report", "moved", "--output", "moved.html", cwd=tmp_path).returncode == 0
    load(browser, tmp_path / "moved.html")
    shown = gantt(
        browser, "return [0.5, 1.5, 2.5, 3.5, 4.5, 5.5].map((p) => g.told(g.at(10, p)).split('\\n').slice(0, 2))"
    )
    assert shown == [["job w0!0", "cluster odd"]] * 3 + [["job w0!1", "cluster even"]] * 2 + [
        ["job w0!2", "cluster even"]
    ]
    assert gantt(browser, "return [0, 1, 2, 3, 4, 5].map(g.processor)") == [0, 2, 4, 1, 3, 5]
    assert gantt(browser, "return g.n") == 3  # a job on processors 0, 2 and 4 is one rectangle


#: What is drawn in each figure of a campaign's page: its name, its family, its categories, and what there is of it.
