"""Change single keys of a procedure for one run; the archived text is the changed one and says so."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import TypeVar

from bench.errors import ProfileError
from bench.profile import ProcedureProfile, parse_profile

ProcedureT = TypeVar("ProcedureT", bound=ProcedureProfile)


def with_overrides(procedure: ProcedureT, overrides: Mapping[str, object]) -> ProcedureT:
    """Return ``procedure`` with the keys in ``overrides`` replaced, validated like the file.

    Parameters
    ----------
    procedure : ProcedureProfile
        Read from a file.
    overrides : mapping
        Keys as in the file; values as there (``"2 mm/s"``, ``3``) or :class:`~bench.units.Value`. None removes a key.

    Raises
    ------
    ProfileError
        With every problem the changed procedure has.
    """
    if not overrides:
        return procedure
    path = procedure.source.path
    table = {**tomllib.loads(procedure.source.text), **overrides}
    lines = [f"# {path.name}, changed for this run: {', '.join(overrides)}"]
    lines += [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]
    changed, problems = parse_profile("\n".join(lines) + "\n", path)
    if problems or not isinstance(changed, type(procedure)):
        listed = "\n  ".join(str(problem) for problem in problems) or f"it is no {procedure.procedure} any more"
        raise ProfileError(f"the changed procedure has problems\n  {listed}", where=str(path), problems=tuple(problems))
    return changed


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
