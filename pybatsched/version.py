"""The version of this package, and what a citation names: tests compare them with pyproject.toml and CITATION.cff."""

__version__ = "1.0.0"

TITLE = "pybatsched: A batch scheduler process for the Batsim simulator, with policies as small Python plugins"
AUTHORS = "The pybatsched authors"
YEAR = 2026
