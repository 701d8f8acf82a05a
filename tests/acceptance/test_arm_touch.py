"""Does the arm touch softly, and better with its gains switched at contact than without?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("full_arm"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_gains_switched_at_contact_press_better_than_those_of_free_space(
    perform: Perform, judge: Judge, arm_feedforward: object
) -> None:
    run = perform("approach_touch", specimen="arm_phantom_a", feedforward=arm_feedforward)
    judge("arm_touch", run)  # rise, overshoot, settling with the switch, and what it gains
