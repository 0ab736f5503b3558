"""A run on several clusters whose policy reports moved jobs; for tests of reports."""

from __future__ import annotations

import json
from pathlib import Path

from support.places import ROOT
from support.platforms import FRONT, TRUNK, text_of
from support.process import run_cli

POLICY = f"{ROOT / 'tests' / 'support' / 'named_cluster.py'}:OnNamedCluster"
#: A name that would do harm if it were taken for HTML.
EVIL = "x<b onclick=x>1</b>"
#: Name, submission, processors, seconds, cluster, facts. The machine is a twentieth of grid-pwa.
JOBS = (
    ("a", 0, 12, 100, "hpc2n", "moves=0;resubmitted=0;cluster=hpc2n"),
    ("b", 0, 15, 200, "ctc", "moves=1;resubmitted=4;cluster=ctc"),
    ("c", 5, 8, 100, "ctc", "moves=3;resubmitted=4;cluster=ctc"),
    ("d", 10, 4, 300, "sdsc", ""),  # an external job without facts
    ("e", 20, 3, 50, "sdsc", "moves=3;resubmitted=3;cluster=sdsc"),
    (EVIL, 30, 2, 150, "hpc2n", "moves=0;resubmitted=2;cluster=hpc2n"),
)
#: Two clusters whose hosts have every other id: 0, 2 and 4 are odd, 1, 3 and 5 are even.
MIXED = text_of(
    (
        *(
            f'<cluster id="{name}" prefix="n" suffix="" radical="{ids}" speed="1Gf" bw="1e300Bps" lat="0">'
            f'<prop id="cluster" value="{name}"/></cluster>'
            for name, ids in (("odd", "1,3,5"), ("even", "2,4,6"))
        ),
        FRONT,
        TRUNK,
        *(
            f'<zoneRoute src="{name}" dst="front" gw_src="n{name}_router" gw_dst="bossfront_router">'
            '<link_ctn id="trunk"/></zoneRoute>'
            for name in ("odd", "even")
        ),
    )
)


def simulated(folder: Path) -> Path:
    """Run the jobs above. Return the prefix of the run's files."""
    jobs = [
        {"id": name, "subtime": at, "res": n, "walltime": s + 1, "profile": str(s), "cluster": where}
        | ({"facts": text} if text else {"external": True})
        for name, at, n, s, where, text in JOBS
    ]
    return run(folder, "grid-pwa@0.05", jobs)


def run(folder: Path, platform: str, jobs: list[dict[str, object]]) -> Path:
    """Run jobs whose profiles are named after their seconds."""
    profiles = {str(job["profile"]): {"type": "delay", "delay": int(str(job["profile"]))} for job in jobs}
    (folder / "grid.json").write_text(json.dumps({"nb_res": 6, "jobs": jobs, "profiles": profiles}))
    done = run_cli("simulate", "-p", platform, "-w", "grid.json", "--policy", POLICY, "-e", "moved", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "moved"
