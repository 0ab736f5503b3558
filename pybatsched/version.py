"""The version of this package, and what a citation names: tests compare them with pyproject.toml and CITATION.cff."""

from typing import Final

__version__ = "1.0.0"

TITLE: Final = "pybatsched: A batch scheduler process for the Batsim simulator, with policies as small Python plugins"
AUTHORS: Final = "The pybatsched authors"
YEAR: Final = 2026
