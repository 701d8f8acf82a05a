"""Procedure profiles: what is commanded and for how long. One model per procedure module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.fields import Name, NonNegativeTime, PositiveForce, PositiveLength, Profile, Quantity, Speed, Time
from bench.profile.problem import Issue
from bench.profile.prompt import Prompt
from bench.units import Value

BaselineTime = Annotated[Value, Quantity("time", at_least="1 s")]
FreeAir = Annotated[Value, Quantity("length", at_least="2 mm")]
_BLOCK = Value(100.0, "ms", "time")


class ProcedureProfile(Profile):
    """What every procedure has."""

    schema_id: Literal["bench.procedure/1"] = Field(alias="schema")
    name: Name
    description: str = ""
    procedure: str
    replicates: int = Field(ge=1, le=100)  # an archive has room for about a thousand phases
    block: Time = _BLOCK
    prompts: tuple[Prompt, ...] = ()


class IndentationProcedure(ProcedureProfile):
    """Approach in free air, press, hold, unload, wait; replicates at one speed, then at the others."""

    procedure: Literal["indentation"]
    approach_speed: Speed
    baseline_time: BaselineTime
    free_air: FreeAir
    press_speed: Speed
    second_speeds: tuple[Speed, ...] = Field(min_length=1)
    second_replicates: int = Field(default=1, ge=1)
    depth: PositiveLength | None = None
    force: PositiveForce | None = None
    hold_time: NonNegativeTime
    residual_time: Time
    settle: NonNegativeTime = Value(500.0, "ms", "time")

    def comparisons(self) -> Iterator[Issue]:
        if self.depth and self.force:
            yield Issue("force", f'"{self.force}"', f"either depth or force, and depth is given ({self.depth})")
        if not self.depth and not self.force:
            yield Issue("depth", "nothing", "exactly one of depth and force", 'Write depth = "8 mm" or force = "3 N"')
        for i, speed in enumerate(self.second_speeds):
            if speed.to("mm/s") == self.press_speed.to("mm/s"):
                yield Issue(
                    f"second_speeds[{i}]", f'"{speed}"', f"another speed than press_speed, {self.press_speed}",
                    "Damping cannot be told from an offset at a single speed",
                )  # fmt: skip


class FrameStiffnessProcedure(ProcedureProfile):
    """Press a rigid plate in force steps, up and down, to find the frame's stiffness."""

    procedure: Literal["frame_stiffness"]
    approach_speed: Speed
    baseline_time: BaselineTime
    free_air: FreeAir
    speed: Speed
    max_force: PositiveForce
    force_steps: int = Field(ge=2)
    dwell: Time = Value(500.0, "ms", "time")


PROCEDURES: dict[str, type[ProcedureProfile]] = {
    "indentation": IndentationProcedure,
    "frame_stiffness": FrameStiffnessProcedure,
}
