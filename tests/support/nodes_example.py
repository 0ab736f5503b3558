"""The example of docs/nodes.md: eight jobs on four nodes, with a partition for each job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.process import run_cli

MACHINE = "2 x 4 cores 16 GB, 2 x 4 cores 32 GB 2 gpus"
#: The jobs of docs/nodes.md: id, submission, processors, run time, request.
JOBS: list[tuple[str, int, int, int, dict[str, Any]]] = [
    ("a", 0, 4, 10, {"memory_gb": 4}),
    ("b", 0, 1, 20, {"node_memory_gb": 12}),
    ("c", 0, 2, 30, {"gpus_per_node": 2}),
    ("d", 1, 2, 15, {"gpus_per_node": 1}),
    ("e", 2, 4, 10, {"n_nodes": 2, "gpus_per_node": 2}),
    ("f", 3, 1, 5, {"memory_gb": 8}),
    ("g", 4, 2, 50, {"gpus_per_node": 1}),
    ("h", 5, 2, 50, {"memory_gb": 2}),
]


def simulate_example(place: Path, prefix: str, *more: str) -> None:
    """Run the example under EASY or another policy, with more options."""
    jobs = [
        {"id": name, "subtime": at, "res": n, "walltime": s + 1, "profile": str(s), **request}
        | {"partition": "gpu" if "gpus_per_node" in request else "main"}
        for name, at, n, s, request in JOBS
    ]
    profiles = {str(s): {"type": "delay", "delay": s} for *_, s, _ in JOBS}
    (place / "w.json").write_text(json.dumps({"nb_res": 16, "jobs": jobs, "profiles": profiles}))
    own = ("--nodes", MACHINE, "-w", str(place / "w.json"), "-e", prefix, "--quiet", "--policy", "easy", *more)
    done = run_cli("simulate", *own, cwd=place)
    assert done.returncode == (5 if "--stop-at" in more else 0), done.stderr
