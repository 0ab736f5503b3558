"""What pyproject.toml cannot say: what is compiled, and which directories an editable install imports from.

With PYBATSCHED_COMPILE=1 the hot parts are compiled: what is written in C, and by mypyc the modules below, from the
same Python that runs uncompiled. ``c`` instead of ``1`` leaves mypyc out. Where something fails, for example without a
compiler, everything works without it. `pybatsched --version` shows which build it is.
"""

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command import editable_wheel

HERE = Path(__file__).parent
WANTED = os.environ.get("PYBATSCHED_COMPILE", "0")
#: As for the C compiler. Tests are content with 0, which is built in half the time.
OPTIMISE = os.environ.get("PYBATSCHED_OPTIMISE", "2")

IN_C = [
    Extension(
        f"pybatsched.{name}",
        [f"pybatsched/{name.replace('.', '/')}.c"],
        depends=["pybatsched/core/_fixed6.h"],
        optional=True,
    )
    for name in ("core._runs", "core._fixed6", "policies._profile")
]

#: Where the time of a run is spent. What defines options (pydantic) or messages (msgspec) stays as it is: compiled
#: already, or done once.
HOT = {
    "pybatsched/core": "actions cluster engine finished_jobs jobs rules services",
    "pybatsched/metrics": "tally",
    "pybatsched/gym": "play",
    "pybatsched/policies": "choices local observations reservations",
    "pybatsched/simulator": "execution job_processes jobs loop orders simulation submitters world",
    "pybatsched/simulator/machine": "hosts",
    "pybatsched/simulator/outputs": "files",
    "pybatsched/simulator/work": "profiles",
    "schedulers/pybatsched_schedulers": "agent_queue conservative easy fcfs",
    "schedulers/pybatsched_schedulers/dbf": "accepted_jobs policy",
    "schedulers/pybatsched_schedulers/reallocation": "grid policy sizing",
    "schedulers/pybatsched_schedulers/redirection": "policy",
    "schedulers/pybatsched_schedulers/ujfb": "policy preemption suspension swaps",
}


def from_python() -> list[Extension]:
    """Give the extensions that mypyc makes of the hot modules; none, and a word why, where it cannot."""
    from mypyc.build import mypycify  # noqa: PLC0415  only where somebody asked for it

    # What a traceback is to say is compiled in: no path of the machine that builds, and the same bytes everywhere.
    os.chdir(HERE)
    os.environ["MYPYPATH"] = os.pathsep.join([".", "schedulers"])
    files = [f"{folder}/{name}.py" for folder, names in HOT.items() for name in names.split()]
    options = ["--config-file=", "--ignore-missing-imports", "--explicit-package-bases", "--namespace-packages"]
    options += ["--disable-error-code=call-arg"]  # where an installer builds, msgspec's types are not at hand
    try:
        found = mypycify([*options, *files], opt_level=OPTIMISE, debug_level="0")
    except SystemExit:  # its way to say that it did not like something; it has said what
        sys.stderr.write("mypyc failed: these modules stay plain Python\n")
        return []
    for extension in found:
        extension.optional = True
        if sys.platform != "win32":  # to look for what might be wrong with generated code takes most of the time
            extension.extra_compile_args = [*(extension.extra_compile_args or []), "-Wno-all"]
    return found


class EditableWheel(editable_wheel.editable_wheel):
    """An editable install that adds both source directories to the path.

    Setuptools would add a finder that comes after the path. A script beside a clone called ``pybatsched`` would then
    import the clone's directory, as a namespace package.
    """

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> editable_wheel.EditableStrategy:  # noqa: ARG002
        return editable_wheel._StaticPth(self.distribution, name, [HERE, HERE / "schedulers"])  # noqa: SLF001


is_wanted = WANTED not in {"", "0"}
with_mypyc = is_wanted and WANTED != "c"
has_mypyc = importlib.util.find_spec("mypyc") is not None  # an installer reads this file first to see what it needs
builds = not {"egg_info", "dist_info", "sdist"} & set(sys.argv)
setup(
    cmdclass={"editable_wheel": EditableWheel},
    ext_modules=[*IN_C, *(from_python() if with_mypyc and has_mypyc and builds else [])] if is_wanted else [],
    setup_requires=["mypy>=1.13"] if with_mypyc and not has_mypyc else [],
)
