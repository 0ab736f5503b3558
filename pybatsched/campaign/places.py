"""Where the platform and policy files of a campaign are: beside its file, or in the working directory.

What is found is told by its whole path: cells are run by processes that may be elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.policies.loading import names_file


def places_of(beside: Path | None) -> list[Path]:
    """Give where to look: the directory of the campaign's file, if it has one, then the working directory."""
    return list(dict.fromkeys(place.resolve() for place in (beside, Path.cwd()) if place is not None))


def platform_at(name: str, places: Sequence[Path]) -> str:
    """Give a platform file's path, or the name of a machine as it is. Raises InputError that says where it looked."""
    found = _found(name, places)
    if found is not None:
        return str(found)
    if names.variant_of(name) is None:
        raise InputError(
            f"platform {name:.200}: no such file in {_shown(name, places)}, and no machine of that name "
            "(pybatsched platform list tells them)"
        )
    return name


def policy_at(name: str, places: Sequence[Path], who: str = "policy") -> str:
    """Give ``path/to/file.py:Class`` with the whole path; the name of an installed policy as it is.

    `who` is what is so named, for messages.
    """
    if not names_file(name):
        return name
    stem, _, class_name = name.partition(".py:") if ".py:" in name else (name.removesuffix(".py"), "", "")
    found = _found(f"{stem}.py", places)
    if found is None:
        raise InputError(f"{who} {name:.200}: no such file in {_shown(f'{stem}.py', places)}")
    return f"{found}:{class_name}" if class_name else str(found)


def _found(name: str, places: Sequence[Path]) -> Path | None:
    for place in places:
        try:
            if (place / name).is_file():
                return (place / name).resolve()
        except (OSError, ValueError):  # a name that no file can have
            return None
    return None


def _shown(name: str, places: Sequence[Path]) -> str:
    where = [Path(name).parent] if Path(name).is_absolute() else places
    return ", ".join(map(str, where))
