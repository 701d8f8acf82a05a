"""Do the parameters of a joint, identified on one trajectory, predict its torque on another?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run

pytestmark = [pytest.mark.rig("single_joint"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_parameters_of_one_trajectory_predict_another(perform: Perform, judge: Judge) -> None:
    run = perform("fourier_excitation", specimen="pendulum_arm")  # two Fourier series, the second one held out
    judge("joint_identification", run)  # RMS of rated, relative error and trivial baselines, in one stated band
