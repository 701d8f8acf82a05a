"""What an operator is asked before a rig gets its power: by the rig, the specimen or the procedure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bench.profile.fields import Quantity, Section
from bench.units import Value

_PATIENCE = Value(10.0, "min", "time")


class Prompt(Section):
    """A thing a person has to do and to say "yes" to; nobody who does not answer in time counts as having said yes.

    ``once`` asks before the first run of an opened station alone, as for a specimen that stays where it was mounted.
    """

    ask: Annotated[str, Field(min_length=1, max_length=300)]
    timeout: Annotated[Value, Quantity("time", at_least="1 s")] = _PATIENCE
    once: bool = False
