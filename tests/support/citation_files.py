"""Write CITATION.cff (CFF 1.2.0) and codemeta.json (CodeMeta 2.0) from the facts of the package, as `make api` does."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any, Final

from pybatsched.version import AUTHORS, TITLE, __version__
from support.places import ROOT


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def cff() -> str:
    """Return the content of CITATION.cff. Strings of JSON are strings of YAML."""
    project = _project()
    facts = {
        "cff-version": "1.2.0",
        "message": "If you use this software, please cite it. `pybatsched cite RUN` also prints what a run used.",
        "type": "software",
        "title": TITLE,
        "version": __version__,
        "license": project["license"],
    }
    lines = [f"{key}: {value if key in {'cff-version', 'type'} else json.dumps(value)}" for key, value in facts.items()]
    lines += ["authors:", f"  - name: {json.dumps(AUTHORS)}", "keywords:"]
    return "\n".join([*lines, *(f"  - {json.dumps(word)}" for word in project["keywords"]), ""])


def codemeta() -> str:
    """Return the content of codemeta.json."""
    project = _project()
    facts = {
        "@context": "https://doi.org/10.5063/schema/codemeta-2.0",
        "@type": "SoftwareSourceCode",
        "name": project["name"],
        "description": project["description"],
        "version": __version__,
        "license": f"https://spdx.org/licenses/{project['license']}",
        "author": [{"@type": "Organization", "name": AUTHORS}],
        "programmingLanguage": "Python",
        "runtimePlatform": f"Python {project['requires-python']}",
        "keywords": project["keywords"],
        "developmentStatus": "https://www.repostatus.org/#active",  # the terms of CodeMeta expect an address
    }
    return json.dumps(facts, indent=2) + "\n"


#: What each file of the root must contain.
FILES: Final[dict[str, Callable[[], str]]] = {"CITATION.cff": cff, "codemeta.json": codemeta}


def write() -> None:
    """Write the files."""
    for name, made in FILES.items():
        (ROOT / name).write_text(made(), encoding="utf-8")
