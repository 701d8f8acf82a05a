"""Limits, watches and the safe state. Everything that moves passes through here; see ``docs/safety.md``."""

from bench.safety.gate import GatedStage
from bench.safety.interlock import GuardedDaq, Interlock
from bench.safety.joint_gate import GatedDrive
from bench.safety.limits import JointLimits, LoadLimits, MotionLimits
from bench.safety.safe_state import SafeStateReport, Step, enter_safe_state
from bench.safety.supervisor import Supervisor
from bench.safety.watch import ForceWatch

__all__ = [
    "ForceWatch",
    "GatedDrive",
    "GatedStage",
    "GuardedDaq",
    "Interlock",
    "JointLimits",
    "LoadLimits",
    "MotionLimits",
    "SafeStateReport",
    "Step",
    "Supervisor",
    "enter_safe_state",
]
