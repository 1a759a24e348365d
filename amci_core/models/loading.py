r"""Your own problem from a Python file."""

from __future__ import annotations

__all__ = ["FILE_MODULE", "is_file_name", "load_problem"]

import hashlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from amci_core.models.base import Problem
from amci_core.models.contract import raised

# What the names of modules that were loaded from such files begin with.
FILE_MODULE = "amci_problem_"
FILE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w*))?", re.DOTALL)


def is_file_name(text: str) -> bool:
    """Whether a text names a Python file, as FILE.py or FILE.py:NAME, and not a problem.

    Example:
        >>> is_file_name("my_problem.py:MINE"), is_file_name("tail-1d")
        (True, False)
    """
    return FILE.fullmatch(text) is not None


def load_problem(file: str | Path) -> Problem:
    """The problem that a Python file defines.

    The file is run, with its own folder on the import path.

    Warning:
        Load only files that you trust: their code is run.

    Arguments:
        file: `FILE.py:NAME`, the name of a problem that the file makes, as by `amci_core.model`,
            or of a subclass of `Problem` that needs no arguments; or `FILE.py`, if there is one.

    Returns:
        The problem.

    Raises:
        ValueError: there is no such file or problem, or several; the file cannot be read or run
            (the message has the line); or the class cannot be called without arguments.

    Example:
        >>> load_problem("nowhere.py")
        Traceback (most recent call last):
        ValueError: problem: no such file: nowhere.py
    """
    match = FILE.fullmatch(str(file)) if isinstance(file, str | Path) else None
    if match is None:
        raise ValueError(f"problem: expected FILE.py or FILE.py:NAME, got {file!r}")
    path, name = Path(match["file"]), match["name"]
    module = _run(path)
    problems = {key: value for key, value in vars(module).items() if _is_problem(value)}
    classes = [key for key, value in problems.items() if _is_class_of(value, module)]
    # Classes that lack methods are bases of others. A file with a class may call it.
    ready = [key for key in classes if not inspect.isabstract(problems[key])] or classes
    made = {id(value): key for key, value in problems.items() if isinstance(value, Problem)}
    ready = ready or list(made.values())
    if not name and len(ready) != 1:
        there = f"defines {', '.join(ready)}" if ready else "defines none"
        hint = f". Name one, such as {path}:{ready[0]}" if ready else ""
        raise ValueError(
            f"problem: expected one problem in {path}, made by amci_core.model or a subclass "
            f"of amci_core.models.Problem; it {there}{hint}"
        )
    name = name or ready[0]
    if name not in problems:
        there = f"it defines {', '.join(classes or problems) or 'none'}"
        raise ValueError(f"problem: {path} has no problem called {name!r}; {there}")
    problem = problems[name]
    try:
        return problem if isinstance(problem, Problem) else problem()
    except Exception as error:
        raise ValueError(f"problem: {name}() in {path} {raised(error)}") from error


def _is_problem(value: Any) -> bool:
    return isinstance(value, Problem) or (inspect.isclass(value) and issubclass(value, Problem))


def _is_class_of(value: Any, module: ModuleType) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def _run(path: Path) -> ModuleType:
    """The module that a file is."""
    if not path.is_file():
        raise ValueError(f"problem: no such file: {path}")
    whole = path.resolve()
    # A name of its own: two files of one name in two folders are two modules.
    digest = hashlib.sha256(str(whole).encode()).hexdigest()[:12]
    name = f"{FILE_MODULE}{path.stem}_{digest}"
    # Dataclasses and pickle look for a class's module there.
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = str(whole)
    sys.path.insert(0, str(whole.parent))
    try:
        exec(compile(whole.read_bytes(), whole, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        why = raised(error)
        if isinstance(error, SyntaxError):
            why = f"cannot be read: line {error.lineno}: {error.msg}"
        raise ValueError(f"problem: {path} {why}") from error
    finally:
        sys.path.remove(str(whole.parent))
    return module
