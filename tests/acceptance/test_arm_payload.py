"""Do the joints' torques tell a payload that was weighed, and hold it as statics says?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("full_arm"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_a_payload_weighs_by_the_joints_torques_what_the_scale_says(
    perform: Perform, judge: Judge, arm_feedforward: object
) -> None:
    run = perform("payload_hold", specimen="payload_1kg", feedforward=arm_feedforward)
    judge("arm_payload", run)  # mass within 3 % with its uncertainty, torques of statics on every joint
