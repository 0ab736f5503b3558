"""List the installed policies, or show one with its options."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from pybatsched.errors import InputError
from pybatsched.policies import registry

EPILOG: Final = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `policies`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a policy, or path/to/file.py:Class")
    parser.add_argument(
        "--batsim-args", action="store_true", help="print only the Batsim options that the policy needs"
    )


def run(args: argparse.Namespace) -> int:
    """Print a list or a description."""
    if args.batsim_args:
        if args.name is None:
            raise InputError("--batsim-args: works only with the name of a policy; add it")
        print(" ".join(registry.find(args.name, trusted=True).batsim_args))
        return 0
    if args.name is not None:
        print("\n".join(description(registry.find(args.name, trusted=True))))
        return 0
    broken = 0
    for name in registry.available():
        try:
            summary = _summary(registry.find(name).cls)
        except InputError as error:
            summary, broken = f"cannot be loaded: {error!s}", 2
        print(f"{name:<22} {summary}")
    return broken


def description(source: registry.PolicySource) -> list[str]:
    """Return a policy's description, line by line."""
    lines = [f"{source.name}: {_summary(source.cls)}", f"  from {source.origin}"]
    if source.cls.needs:
        lines.append(f"  Batsim must be started with {' '.join(source.batsim_args)}")
    if source.job_fields:
        lines.append("reads these fields of jobs:")
        lines += [f"  {name}" + f": {text}" * bool(text) for name, text in source.job_fields.items()]
    fields = source.option_fields
    lines.append("options:" if fields else "no options")
    for name, info in fields.items():
        lines.append(f"  {name} = {_shown_default(info)}")
        details = [info.description or "", f"({_shown_type(info.annotation)})"]
        text = " ".join(part for part in details if part)
        lines += textwrap.wrap(text, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return lines


def _summary(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "no description").splitlines()[0]


def _shown_default(info: Any) -> str:
    default = info.get_default(call_default_factory=True) if not info.is_required() else PydanticUndefined
    return "(required)" if default is PydanticUndefined else json.dumps(default, default=str)


def _shown_type(annotation: Any) -> str:
    """Return a type in words, without the checks that belong to it.

    >>> _shown_type(Annotated[str, len] | None)
    'str | None'
    """
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _shown_type(parts[0])
    if kind in {Union, UnionType}:
        return " | ".join(map(_shown_type, parts))
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return text.replace("typing.", "").replace("Literal[", "one of [").replace("NoneType", "None")
