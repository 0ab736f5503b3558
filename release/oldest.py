"""Print the oldest allowed version of each dependency as a constraint, and the pins of the test tools.

    python release/oldest.py > build/oldest.txt

`make oldest` installs these versions and runs tests with them, so the lower bounds of pyproject.toml are true.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Print a line for each dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    tools = [re.split("[<>=]", one)[0] for one in extras.pop("dev")]
    needed = {one for extra in (project["dependencies"], *extras.values()) for one in extra}
    oldest = dict(one.split(">=") for one in sorted(needed) if "pybatsched" not in one)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pins = dict(line.split("==") for line in lines)
    versions = {name: pins[name] for name in tools if name in pins} | oldest
    print("".join(f"{name}=={version}\n" for name, version in versions.items()), end="")


if __name__ == "__main__":
    main()
