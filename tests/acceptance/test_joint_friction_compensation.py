"""Does identified friction, fed forward, leave no more than a tenth of a newton metre where friction shows most?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("single_joint"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_compensated_friction_leaves_a_tenth_of_a_newton_metre(
    perform: Perform, judge: Judge, feedforward: object
) -> None:
    tracking = perform("low_speed_tracking", specimen="pendulum_arm", feedforward=feedforward)
    judge("friction_compensation", tracking)  # residual torque, feedback still needed, force at the tool tip
