"""Simulated arms, each identified from its own records: are friction, drive gains and payload what the truth says?

The plant runs in this process under a plain position loop, so what is compared is the analysis and nothing else: motors
with torque constants of their own, elastic axes with LuGre friction and ripple, links 5 % off the profile. One arm
takes a minute, so none is run unless asked for: ``BENCH_TRUTH_SEEDS=3 pytest tests/reference/test_arm_truth.py``.
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

from bench.acceptance.arm_evidence import ArmEvidence
from bench.acceptance.arm_statics import hold_torque_residual, payload_mass_error, residual_torque
from bench.arm import arm_model, body, ratings
from bench.arm_feedforward import arm_feedforward_model
from bench.identify.arm_crossings import poses_of
from bench.identify.arm_gains import identify_gains
from bench.identify.arm_identify import identify_arm
from bench.profile import ArmCriteria, ArmRig, Payload, load_criteria, load_rig, load_specimen, load_twin

SEEDS = int(os.environ.get("BENCH_TRUTH_SEEDS", "0"))
pytestmark = pytest.mark.skipif(SEEDS == 0, reason="a minute an arm: set BENCH_TRUTH_SEEDS")
SLOW = 0.02


def helper() -> Any:
    """The loop around the plant, loaded from the file beside this one."""
    spec = importlib.util.spec_from_file_location("arm_plant_loop", Path(__file__).with_name("arm_plant_loop.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def laboratory(repository: Path) -> Any:
    """Rig, twin, texts and the loop."""
    profiles = repository / "profiles"

    class Laboratory:
        made = helper()
        rig = load_rig(profiles / "rigs/full_arm.toml")
        twin = load_twin(profiles / "twins/full_arm.toml")
        payload = load_specimen(profiles / "specimens/payload_1kg.toml")

        def __init__(self) -> None:
            files = (profiles / "specimens").glob("*.toml")
            self.texts = {file.stem: file.read_text(encoding="utf-8") for file in files}

        def loop(self, specimen: str, seed: int) -> Any:
            return self.made.Loop(self.rig, self.twin, specimen, seed)

        def excitation(self, seed: int) -> Any:
            loop, model = self.loop("bare_tool", seed), arm_model(self.rig)
            for phase in ("train", "hold_out"):
                motion, seconds = self.made.series(profiles / f"trajectories/full_arm_{phase}.toml")
                loop.go(motion(0.0)[0], model)
                loop.run(motion, seconds, model, phase=(phase, 1, np.nan))
            return loop.record("arm_excitation", self.texts)

        def tracking(self, seed: int, model: Any, friction: Callable[[Any], Any], phase: str, text: str | None) -> Any:
            loop, place = self.loop("bare_tool", seed), np.array([0.1, -0.3, 0.2, 0.1, 0.8, 0.0])
            loop.go(place, model, friction)
            for joint in range(6):
                turn = np.eye(6)[joint]
                for way in (1.0, -1.0):
                    start = place if way > 0 else place + 0.05 * turn
                    number = 10 * (joint + 1) + (way < 0)
                    loop.slide(start, way * SLOW * turn, (phase, number, way * SLOW), model, friction)
                    loop.go(place + 0.05 * turn * (way > 0), model, friction, 0.2)
            return loop.record("arm_tracking", self.texts, text)

        def hold(self, seed: int, specimen: str, arm: Any, text: str) -> Any:
            loop, turning = self.loop(specimen, seed), np.full(6, SLOW)
            places = np.random.default_rng(5).uniform(-1, 1, (8, 6)) * [1.5, 0.8, 0.8, 1.5, 1.2, 2.0]
            for number, place in enumerate(places, start=1):
                for way in (1.0, -1.0):
                    start = place - way * 0.025
                    loop.go(start, arm.model, arm.friction.torque, 0.8 if way > 0 else 0.2)
                    loop.slide(start, way * turning, ("crossing", number, way * SLOW), arm.model, arm.friction.torque)
            return loop.record("payload_hold", self.texts, text)

    return Laboratory()


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_an_arm_is_identified_within_the_targets(
    laboratory: Any, repository: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    lab, none = laboratory, laboratory.made.none
    rig: ArmRig = lab.rig
    rated = ratings(rig.arm).rated_torque
    excitation = lab.excitation(seed)
    found = identify_arm(excitation, [lab.tracking(seed, arm_model(rig), none, "uncompensated", None)])
    assert found.hold_out_error is not None
    assert found.residual is not None
    record_property("hold_out_error", found.hold_out_error)
    assert found.hold_out_error <= 0.03
    assert (found.residual <= 0.02 * rated).all()
    assert min(float(np.linalg.eigvalsh(link.pseudo_inertia())[0]) for link in found.physical.links) > 0.0

    truth = lab.loop("bare_tool", seed).arm.truth
    for one, axis in zip(found.friction, truth.axes, strict=True):
        level = axis.coulomb + axis.stribeck_excess * np.exp(-((SLOW / axis.stribeck_velocity) ** 2))
        assert float(one.torque(SLOW) - one.law.offset) == pytest.approx(level + axis.viscous * SLOW, rel=0.05)

    text = found.feedforward().text
    file = found.feedforward().profile()
    arm = arm_feedforward_model(file, rig)
    tracked = lab.tracking(seed, arm.model, arm.friction.torque, "compensated", text)
    criteria = [load_criteria(repository / f"profiles/acceptance/{name}.toml") for name in
                ("arm_friction_compensation", "arm_payload")]  # fmt: skip
    assert all(isinstance(one, ArmCriteria) for one in criteria)
    compensation, payload = criteria
    for value in residual_torque(ArmEvidence(tracked, compensation.analysis), compensation.criteria[0]):
        assert value.joint is not None
        assert abs(value.one.value) <= max(0.1, 0.01 * rated[value.joint])

    assert isinstance(lab.payload, Payload)
    loaded = lab.hold(seed, "payload_1kg", arm_feedforward_model(file, rig, lab.payload), text)
    evidence = ArmEvidence(loaded, payload.analysis)
    (mass,) = payload_mass_error(evidence, payload.criteria[0])
    record_property("mass_error", mass.one.value)
    assert abs(mass.one.value) <= 0.02
    for value in hold_torque_residual(evidence, payload.criteria[1]):
        assert value.joint is not None
        assert abs(value.one.value) <= max(0.1, 0.02 * rated[value.joint])

    bare = lab.hold(seed, "bare_tool", arm, text)
    pairs = [poses_of(run, rig, arm.model) for run in (loaded, bare)]
    names = [joint.name for joint in rig.arm.joints]
    gains = identify_gains(*pairs, names=names, known=body(lab.payload.body), mass_uncertainty=5e-4)
    assert not gains["base"].identifiable
    for name, axis, joint in zip(names, truth.axes, rig.arm.joints, strict=True):
        if gains[name].identifiable:
            assert joint.torque_constant is not None
            true = axis.torque_per_current / (joint.torque_constant.to("N.m/A") * joint.gear_ratio)
            assert gains[name].scale.value == pytest.approx(true, abs=0.005)
    assert sum(one.identifiable for one in gains.values()) >= 4
