"""Limits, watches, the safe state, leases. Everything that moves passes through here; see ``docs/safety.md``.

What has to do with numbers is imported when it is first asked for: the processes that only keep leases, or watch over
another one, start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "ForceWatch": "watch",
    "GatedDrive": "joint_gate",
    "GatedStage": "gate",
    "GuardedDaq": "interlock",
    "Interlock": "interlock",
    "JointLimits": "limits",
    "LoadLimits": "limits",
    "MotionLimits": "limits",
    "SafeStateReport": "safe_state",
    "Step": "safe_state",
    "Supervisor": "supervisor",
    "enter_safe_state": "safe_state",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
