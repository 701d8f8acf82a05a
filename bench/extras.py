"""Optional libraries: imported where they are first needed, with a sentence on how to get one that is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.errors import BenchError

#: Module → the extra of this package that brings it.
EXTRAS = {"pinocchio": "arm", "mujoco": "arm", "clarabel": "arm", "openpyxl": "excel"}


class MissingExtra(BenchError):
    """A library that only some tasks need is not installed."""


def need(module: str) -> Any:
    """Import and return an optional module.

    Raises
    ------
    MissingExtra
        It is not installed; the message names the extra that brings it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        extra = EXTRAS[module]
        raise MissingExtra(
            f"the library {module} is not installed",
            where="this Python environment",
            remedy=f'Install it with: pip install "forcebench[{extra}]"',
        ) from error
