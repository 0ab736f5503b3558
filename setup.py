"""Build settings that pyproject.toml cannot express: the parts in C, and the paths of an editable install.

The availability profile is also written in C. It is compiled if there is a C compiler; otherwise its twin in plain
Python is used. PYBATSCHED_COMPILE=0 and editable installs compile nothing. `pybatsched --version` shows the kind of
build.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command import editable_wheel

HERE = Path(__file__).parent
IN_C = [
    Extension(
        f"pybatsched.{name}",
        [f"pybatsched/{name.replace('.', '/')}.c"],
        # Rounded as in Python: fused multiplications and additions, the default on ARM, give other digits.
        extra_compile_args=["-ffp-contract=off"],
        optional=True,
    )
    for name in ("policies._profile",)
]


class EditableWheel(editable_wheel.editable_wheel):
    """An editable install that compiles nothing, and adds all source directories to the path.

    Setuptools would add a finder that comes after the path. A script next to a clone called ``pybatsched`` would then
    import the clone's directory as a namespace package.
    """

    def run(self) -> None:
        """Install without the parts in C."""
        self.distribution.ext_modules = []
        super().run()

    def _select_strategy(self, name: str, tag: str, build_lib: str) -> editable_wheel.EditableStrategy:  # noqa: ARG002
        return editable_wheel._StaticPth(self.distribution, name, [HERE, HERE / "schedulers", HERE / "studies"])  # noqa: SLF001


setup(
    cmdclass={"editable_wheel": EditableWheel},
    ext_modules=[] if os.environ.get("PYBATSCHED_COMPILE") == "0" else IN_C,
)
