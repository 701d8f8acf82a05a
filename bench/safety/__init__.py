"""Limits, watches and the safe state. Everything that moves passes through here; see ``docs/safety.md``."""

from bench.safety.gate import GatedStage
from bench.safety.interlock import GuardedDaq, Interlock
from bench.safety.limits import LoadLimits, MotionLimits
from bench.safety.safe_state import SafeStateReport, Step, enter_safe_state
from bench.safety.supervisor import Supervisor
from bench.safety.watch import ForceWatch

__all__ = [
    "ForceWatch",
    "GatedStage",
    "GuardedDaq",
    "Interlock",
    "LoadLimits",
    "MotionLimits",
    "SafeStateReport",
    "Step",
    "Supervisor",
    "enter_safe_state",
]
