"""What pyproject.toml cannot say: with PYBATSCHED_COMPILE=1 the hot parts are compiled as well.

That is what is written in C, and with mypyc the modules below, from the same Python that runs uncompiled. ``c``
instead of ``1`` leaves mypyc out. Where something fails, for want of a compiler say, everything works without it;
`pybatsched --version` tells which it is.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
WANTED = os.environ.get("PYBATSCHED_COMPILE", "0")

IN_C = [
    Extension("pybatsched.core._runs", ["pybatsched/core/_runs.c"], optional=True),
    Extension("pybatsched.core._six", ["pybatsched/core/_six.c"], optional=True),
    Extension("pybatsched.policies._profile", ["pybatsched/policies/_profile.c"], optional=True),
]

#: Where the time of a run is spent. What defines options (pydantic) or messages (msgspec) stays as it is: compiled
#: already, or done once.
HOT = {
    "pybatsched/core": "actions cluster engine holds jobs notes ordered plugin rules services terms",
    "pybatsched/metrics": "tally",
    "pybatsched/policies": "local",
    "pybatsched/simulator": "execution jobs lives loop machines orders outputs simulation submitters work world",
    "pybatsched_schedulers": "easy fcfs",
}


def compiled() -> list[Extension]:
    """Give the extensions that mypyc makes of the hot modules; none where mypyc is not at hand."""
    try:
        from mypyc.build import mypycify  # noqa: PLC0415  only where somebody asked for it
    except ImportError:  # the first of the two times an installer reads this file; it sees `setup_requires` then
        return []
    place = HERE / "build" / "typing"  # the directory schedulers/ is installed as pybatsched_schedulers
    place.mkdir(parents=True, exist_ok=True)
    link = place / "pybatsched_schedulers"
    if not link.exists():
        link.symlink_to(HERE / "schedulers", target_is_directory=True)
    os.environ["MYPYPATH"] = os.pathsep.join([str(HERE), str(place)])
    files = [
        str((place if folder == "pybatsched_schedulers" else HERE) / folder / f"{name}.py")
        for folder, names in HOT.items()
        for name in names.split()
    ]
    options = ["--config-file=", "--ignore-missing-imports", "--explicit-package-bases", "--namespace-packages"]
    found = mypycify([*options, *files], opt_level=os.environ.get("PYBATSCHED_OPT", "2"), debug_level="0")
    for extension in found:
        extension.optional = True
    return found


IS_COMPILED = WANTED not in {"", "0"}
WITH_MYPYC = IS_COMPILED and WANTED != "c" and not {"egg_info", "dist_info", "sdist"} & set(sys.argv)
setup(
    ext_modules=[*IN_C, *(compiled() if WITH_MYPYC else [])] if IS_COMPILED else [],
    setup_requires=["mypy>=1.13"] if IS_COMPILED and WANTED != "c" else [],
)
