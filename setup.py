"""Build settings that pyproject.toml cannot express: compiled modules, and the paths of an editable install.

With PYBATSCHED_COMPILE=1 the hot parts are compiled: the C extensions, and by mypyc the modules below, from the same
Python source. ``c`` instead of ``1`` builds only the C extensions. If compilation fails, for example without a
compiler, the plain Python modules are used. `pybatsched --version` shows the kind of build.
"""

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command import editable_wheel

HERE = Path(__file__).parent
WANTED = os.environ.get("PYBATSCHED_COMPILE", "0")
#: The optimisation level of the C compiler. Tests use 0, which halves the build time.
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

#: Modules in which most of the run time is spent. Modules with options (pydantic) or messages (msgspec) are not
#: compiled: these libraries are compiled already, or the code runs once.
HOT = {
    "pybatsched/core": "actions cluster engine finished_jobs jobs validator",
    "pybatsched/core/services": "requeue",
    "pybatsched/metrics": "tally",
    "pybatsched/gym": "play",
    "pybatsched/policies": "choices local_scheduler observations reservations",
    "pybatsched/simulator": "decision_effects execution job_processes jobs loop simulation submitters world",
    "pybatsched/simulator/machine": "hosts",
    "pybatsched/simulator/outputs": "files",
    "pybatsched/simulator/simgrid": "actions kernel processes",
    "pybatsched/simulator/work": "profiles sharing",
    "schedulers/pybatsched_schedulers": "agent_queue conservative easy fcfs",
    "schedulers/pybatsched_schedulers/dbf": "accepted_jobs policy",
    "schedulers/pybatsched_schedulers/reallocation": "grid policy sizing",
    "schedulers/pybatsched_schedulers/redirection": "policy",
    "schedulers/pybatsched_schedulers/ujfb": "policy preemption suspension swaps",
}


def from_python() -> list[Extension]:
    """Return the extensions of the hot modules; none, with a message, if mypyc fails."""
    from mypyc.build import mypycify  # noqa: PLC0415  only for compiled builds

    # Relative paths: tracebacks contain them, and the build must not depend on its directory.
    os.chdir(HERE)
    os.environ["MYPYPATH"] = os.pathsep.join([".", "schedulers"])
    files = [f"{folder}/{name}.py" for folder, names in HOT.items() for name in names.split()]
    options = ["--config-file=", "--ignore-missing-imports", "--explicit-package-bases", "--namespace-packages"]
    options += ["--disable-error-code=call-arg"]  # msgspec's types are missing in isolated builds
    try:
        found = mypycify([*options, *files], opt_level=OPTIMISE, debug_level="0")
    except SystemExit:  # mypyc has printed the error
        sys.stderr.write("mypyc failed: these modules stay plain Python\n")
        return []
    for extension in found:
        extension.optional = True
        if sys.platform != "win32":  # warnings about generated code are slow and of no use
            extension.extra_compile_args = [*(extension.extra_compile_args or []), "-Wno-all"]
    return found


class EditableWheel(editable_wheel.editable_wheel):
    """An editable install that adds both source directories to the path.

    Setuptools would add a finder that comes after the path. A script next to a clone called ``pybatsched`` would then
    import the clone's directory as a namespace package.
    """

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> editable_wheel.EditableStrategy:  # noqa: ARG002
        return editable_wheel._StaticPth(self.distribution, name, [HERE, HERE / "schedulers"])  # noqa: SLF001


is_wanted = WANTED not in {"", "0"}
with_mypyc = is_wanted and WANTED != "c"
has_mypyc = importlib.util.find_spec("mypyc") is not None  # an installer first runs this file to find its requirements
builds = not {"egg_info", "dist_info", "sdist"} & set(sys.argv)
setup(
    cmdclass={"editable_wheel": EditableWheel},
    ext_modules=[*IN_C, *(from_python() if with_mypyc and has_mypyc and builds else [])] if is_wanted else [],
    setup_requires=["mypy>=1.13"] if with_mypyc and not has_mypyc else [],
)
