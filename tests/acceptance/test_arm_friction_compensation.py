"""Does identified friction, fed forward, leave next to nothing on every joint where friction shows most?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("full_arm"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_compensated_friction_leaves_a_hundredth_of_the_rated_torque(
    perform: Perform, judge: Judge, arm_feedforward: object
) -> None:
    run = perform("arm_tracking", specimen="bare_tool", feedforward=arm_feedforward)
    judge("arm_friction_compensation", run)  # the larger of 0.1 N.m and 1 % of rated, joint by joint
