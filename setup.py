"""What pyproject.toml cannot say: with PYBATSCHED_COMPILE=1 the parts written in C are built as well.

Where that fails, for want of a compiler say, everything works without them; `pybatsched --version` tells which it is.
"""

import os

from setuptools import Extension, setup

PARTS = [
    Extension("pybatsched.core._six", ["pybatsched/core/_six.c"], optional=True),
    Extension("pybatsched.policies._profile", ["pybatsched/policies/_profile.c"], optional=True),
]

setup(ext_modules=PARTS if os.environ.get("PYBATSCHED_COMPILE", "0") not in {"", "0"} else [])
