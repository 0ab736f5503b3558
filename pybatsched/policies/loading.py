"""Load Python code by name, which runs it: ``path/to/file.py:Name``, or ``module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pybatsched.core.policy import TrustedFiles
from pybatsched.errors import NOT_THE_PLUGINS, InputError, UntrustedFileError, describe_error


def names_file(name: str) -> bool:
    """Return whether a name is that of a Python file: ``path/to/file.py:Name``, or ``path/to/file.py``."""
    return name.endswith(".py") or ".py:" in name


def split(name: str) -> tuple[Path, str]:
    """Return the file of a name, and the object in it, which may be empty.

    >>> split("mine/agent.py:Best")[1], split("agent.py")
    ('Best', (PosixPath('agent.py'), ''))
    """
    path, _, inner = name.partition(".py:")
    return Path(path if path.endswith(".py") else path + ".py"), inner


def check_is_file(path: Path, who: str) -> None:
    """Raise InputError with the prefix `who` if there is no such file."""
    try:
        is_there = path.is_file()
    except OSError as error:
        raise InputError(f"{who}: {path}: cannot be read: {error.strerror}") from None
    if not is_there:
        raise InputError(f"{who}: file {path} not found; expected the path of a Python file")


def module_of(path: Path, module_name: str, who: str) -> ModuleType:
    """Run a file as a module of this name. Raises InputError with the prefix `who` for every failure."""
    check_is_file(path, who)
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{who}: {path} cannot be read as Python; expected a file with the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # pydantic looks up annotations there
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # so that it can import modules of its directory
    loader = spec.loader
    run_plugin(lambda: loader.exec_module(module), who)
    return module


def agent_of(name: str, files: TrustedFiles) -> Callable[..., Any]:
    """Load an agent, ``module:object`` or ``file.py:object``, from the user's own options. Raises InputError."""
    if name in files.others:
        raise UntrustedFileError(
            f"{files.others[name]}: {name!r:.200} is Python code, which is not accepted from there; give it with -o"
        )
    who = f"agent {name!r:.200}"
    if name not in files.names:
        raise UntrustedFileError(f"{who} is Python code, which is accepted only from your own options; give it with -o")
    found = object_of(name, "agent")
    if isinstance(found, type):
        found = run_plugin(found, who)
    if not callable(found):
        raise InputError(f"{who} is a {type(found).__name__}; expected a function of an observation and its mask")
    agent: Callable[..., Any] = found
    return agent


def object_of(name: str, kind: str) -> Any:
    """Load ``module:object`` or ``file.py:object``, which runs that code. `kind` is what it is. Raises InputError."""
    who = f"{kind} {name!r:.200}"
    if names_file(name):
        path, inner = split(name)
        module = module_of(path, f"pybatsched_{kind}_file_{path.stem}", who) if inner else None
    else:
        module_name, _, inner = name.partition(":")
        is_name = all(part.isidentifier() for part in module_name.split("."))
        module = _module(module_name, inner, who) if inner and is_name else None
    if module is None:
        raise InputError(f"{who}: expected module:object or path/to/file.py:object")
    found: Any = module
    for part in inner.split("."):
        if not hasattr(found, part):
            raise InputError(f"{who}: the file or module has no object {inner}; check the name after the colon")
        found = getattr(found, part)
    return found


def _module(name: str, inner: str, who: str) -> Any:
    try:
        return run_plugin(lambda: importlib.import_module(name), who)
    except InputError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name == name and Path(f"{name}.py").is_file():
            raise InputError(f"{who}: unknown module {name}; for the file use {name}.py:{inner}") from None
        raise


def run_plugin(code: Callable[[], Any], who: str, problem: str = "cannot be loaded") -> Any:
    """Run code of a plugin. Raises InputError for its exceptions."""
    try:
        return code()
    except NOT_THE_PLUGINS:
        raise
    except BaseException as error:
        raise InputError(f"{who} {problem}: {describe_error(error)}") from error
