"""Does the force that the joints' torques tell agree with the wrist sensor's?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("full_arm"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_joint_torques_and_wrist_sensor_tell_one_force(perform: Perform, judge: Judge, arm_feedforward: object) -> None:
    run = perform("wrench_check", specimen="arm_phantom_a", feedforward=arm_feedforward)
    judge("arm_wrench", run)  # F from J^-T (tau - G) along the surface's normal, several levels
