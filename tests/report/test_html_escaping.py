"""Names on a page are escaped: in cells, in scripts, and in hover texts of charts."""

from __future__ import annotations

import json
from pathlib import Path

from support.process import run_cli

EVIL = "</script><img src=x onerror=alert(1)>"


def test_no_name_in_a_page_is_markup(tmp_path: Path) -> None:
    job = {"id": EVIL, "subtime": 0, "res": 1, "walltime": 9, "profile": EVIL, "user": EVIL}
    profiles = {EVIL: {"type": "delay", "delay": 5}}
    file = f"w{EVIL.replace('/', '')}.json"
    jobs = [job, job | {"id": "b", "subtime": 1}]
    (tmp_path / file).write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles}))
    args = ("--procs", "1", "-w", file, "--policy", "easy", "-q", "-e", "<img src=y>", "--journal", "j.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    done = run_cli("report", "<img src=y>", "--output", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    counts = [page.count(text) for text in ("<img src=x", "<img src=y", f"{EVIL[:9]}<img")]
    assert counts == [0, 0, 0]  # the page is too long to be shown
    assert page.count("\\u003c/script>\\u003cimg src=x onerror") > 0
    assert page.count("&lt;img src=y&gt;") > 0
