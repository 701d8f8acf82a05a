"""Simulated arms, each identified from its own excitation: are base parameters what the truth says, within their s.d.?

The plant (MuJoCo, elastic axes, LuGre friction, torque constants up to a percent off, links off the profile) runs in
this process under a plain position loop. An arm takes ten seconds: ``BENCH_TRUTH_SEEDS=3 pytest`` this file.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.arm import arm_description, arm_model, drivetrain, ratings
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_fit import fit_arm
from bench.identify.arm_hold_out import hold_out_arm
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_record import pieces
from bench.identify.filtering import LowPass
from bench.models.rigid import ArmModel
from bench.profile import load_rig, load_twin

SEEDS = int(os.environ.get("BENCH_TRUTH_SEEDS", "0"))
pytestmark = pytest.mark.skipif(SEEDS == 0, reason="ten seconds an arm: set BENCH_TRUTH_SEEDS")


def excitation(repository: Path, seed: int) -> tuple[Any, Any, Any]:
    """Rig, run and truth of one simulated arm."""
    spec = importlib.util.spec_from_file_location("arm_plant_loop", Path(__file__).with_name("arm_plant_loop.py"))
    assert spec is not None
    assert spec.loader is not None
    made: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    profiles = repository / "profiles"
    rig: Any = load_rig(profiles / "rigs/full_arm.toml")
    loop = made.Loop(rig, load_twin(profiles / "twins/full_arm.toml"), "bare_tool", seed)
    model = arm_model(rig)
    for phase in ("train", "hold_out"):
        motion, seconds = made.series(profiles / f"trajectories/full_arm_{phase}.toml")
        loop.go(motion(0.0)[0], model)
        loop.run(motion, seconds, model, phase=(phase, 1, np.nan))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in (profiles / "specimens").glob("*.toml")}
    return rig, loop.record("arm_excitation", texts), loop.arm.truth


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_base_parameters_are_within_three_standard_deviations(
    repository: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    rig, run, truth = excitation(repository, seed)
    rated = ratings(rig.arm)
    base = BaseParameters.of(ArmLaw(ArmModel(arm_description(rig)), coupling=drivetrain(rig.arm).coupling))
    train = list(pieces(run, rig, ("train",)))
    fit = fit_arm(base, train, LowPass(6.0), speed_limit=rated.speed, torque_scale_uncertainty=rated.torque_uncertainty)
    report = hold_out_arm(fit, pieces(run, rig, ("hold_out",)), LowPass(10.0))
    for line in report.lines():
        record_property("hold-out", line)
    assert report.distinct
    assert report.moving_rated.relative <= 3.0
    assert report.moving.relative <= 3.0
    assert all(one.rms_of_rated <= 2.0 for one in report.joints)
    assert fit.condition_number <= 8.0

    arm = truth.arm.with_load(truth.tool.moved(truth.sensor_frame))
    own = [[getattr(axis, name) for axis in truth.axes] for name in ("inertia", "viscous", "coulomb", "offset")]
    standard = np.concatenate([arm.parameters(), *own])
    apart = (fit.values - base.values(standard)) / fit.standard_deviation
    record_property(
        "apart", f"{np.mean(np.abs(apart) <= 3.0):.1%} within 3 s.d., r.m.s. {np.sqrt(np.mean(apart**2)):.2f}"
    )
    assert np.mean(np.abs(apart) <= 3.0) >= 0.95
    assert np.sqrt(np.mean(apart**2)) > 0.3  # nor is the s.d. stated for safety's sake
