"""Do the parameters of an arm, identified on one trajectory, predict its torques on another?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("full_arm"), pytest.mark.slow]

Judge = Callable[..., Verdict]


def test_parameters_of_one_trajectory_predict_another_on_every_joint(
    arm_excitation: Callable[[], Run], judge: Judge
) -> None:
    run = arm_excitation()  # two Fourier series with the bare tool, the second one held out
    judge("arm_identification", run)  # relative error, share of rated, baseline, condition number, consistency
