"""Does the joint move as the inertia, damper and spring it is told to be?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("single_joint"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_joint_steps_as_its_impedance_predicts(perform: Perform, judge: Judge, feedforward: object) -> None:
    run = perform("impedance_step", specimen="balanced_arm", feedforward=feedforward)  # M_d 2, B_d 10, K_d 50
    judge("impedance_step", run)  # overshoot and settling against the prediction, both ways
