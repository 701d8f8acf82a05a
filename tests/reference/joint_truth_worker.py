"""Identify one simulated joint per seed, over the wire, and print what was found beside the truth, a JSON line each.

python tests/reference/joint_truth_worker.py FIRST LAST RESULTS
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.archive import Run
from bench.identify.estimate import Estimate, Source, combine
from bench.identify.filtering import LowPass
from bench.identify.friction import identify_friction
from bench.identify.friction_fit import FrictionFit
from bench.identify.joint_dynamics import JointFit, identify
from bench.identify.joint_laws import link_side, motor_side
from bench.identify.joint_record import JointFacts, pieces
from bench.identify.stiffness import StiffnessFit, identify_stiffness
from bench.procedures import perform
from bench.profile import TwinProfile, find_profile, load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

#: What is run on what.
RUNS = (
    ("friction_sweep", "pendulum_arm"),
    ("fourier_excitation", "pendulum_arm"),
    ("stiffness_ramp", "output_lock"),
)
#: The shipped procedures, shortened where nothing is learned. The ramp keeps its rate: at twice of it the gear rings at
#: the corners, which takes hysteresis off and makes the stiffness seem a per cent lower.
SHORTER: dict[str, dict[str, object]] = {
    "friction_sweep": {
        "speeds": [f"{speed} rad/s" for speed in ("0.01", "0.03", "0.06", "0.1", "0.3", "1", "2")],
        "segment_time": "1.5 s",
        "warm_up_time": "2 s",
        "breakaway_cycles": 1,
    },
    "fourier_excitation": {
        "base_frequency": "0.15 Hz",
        "harmonics": 4,
        "hold_out_base_frequency": "0.4 Hz",
        "hold_out_harmonics": 2,
        "hold_out_periods": 1,
    },
}
CUTOFF_RATIO = 0.5


def twin_of(seed: int, results: Path, root: Path) -> TwinProfile:
    """Return the shipped twin with a transducer of its own: one of those its certificate speaks of."""
    text = find_profile("twins", "single_joint", root).read_text(encoding="utf-8")
    error = np.random.default_rng(seed).normal(0.0, transducer_gain(root))
    mine, count = re.subn(r'^gain_error = ".*"', f'gain_error = "{100.0 * error:.5f} %"', text, flags=re.MULTILINE)
    assert count == 1
    file = results / "single_joint.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(mine, encoding="utf-8")
    return load_twin(file)


def record(seed: int, procedure: str, specimen: str, results: Path, root: Path) -> tuple[Path, dict[str, Any]]:
    """Run ``procedure`` on the twin and return its archive and the truth of this seed with this specimen."""
    mounted = load_specimen(find_profile("specimens", specimen, root))
    rig = load_rig(find_profile("rigs", "single_joint", root))
    with open_station(rig, "mock", twin=twin_of(seed, results, root), specimen=mounted, seed=seed) as station:
        wanted = load_procedure(find_profile("procedures", procedure, root))
        path = perform(station, wanted, mounted, operator="test", results_dir=results, overrides=SHORTER.get(procedure))
        return path, station.twin.control.truth()


def dynamics(path: Path) -> tuple[JointFit, JointFit]:
    """Motor's and link's side from the train trajectory."""
    with Run.open(path) as run:
        band = LowPass(CUTOFF_RATIO * JointFacts.from_run(run).bandwidth_hz)
        found = list(pieces(run, ("train",)))
    motor = identify(motor_side(), (one.motor_side() for one in found), band)
    return motor, identify(link_side(), (one.link_side() for one in found), band)


def transducer_gain(root: Path) -> float:
    """Standard uncertainty of the transducer's gain by its certificate [1]."""
    rig = load_rig(find_profile("rigs", "single_joint", root))
    (sheet,) = [one for one in rig.calibrations if one.instrument == "torque_transducer"]
    return sheet.expanded_uncertainty.to("1") / sheet.coverage_factor


def with_gain(one: Estimate, gain: float) -> Estimate:
    """Add the transducer's gain, which the regression of a motion cannot know of: it scales every torque alike."""
    sources = [Source("regression", np.array([[one.standard_uncertainty]]), one.degrees_of_freedom)]
    sources.append(Source("transducer_gain", np.array([[gain * one.value]])))
    return combine(one.value, np.ones(1), sources, one.unit, one.kind)


def compare(
    fit: FrictionFit,
    sides: tuple[JointFit, JointFit],
    gear: StiffnessFit,
    gain: float,
    truth: Mapping[str, Any],
    gear_truth: Mapping[str, Any],
) -> dict[str, list[float]]:
    """Parameter → value, U and truth; friction's truth as it is at the temperature and load the fit refers to."""
    motor, link = sides
    warm = 1.0 - truth["temperature_coefficient"] * (fit.reference_temperature - truth["reference_temperature"])
    expected = {
        "coulomb": warm * truth["coulomb"] + truth["load_coefficient"] * fit.reference_load,
        "viscous": warm * truth["viscous"],
        "stribeck_excess": warm * truth["stribeck_excess"],
        "stribeck_velocity": truth["stribeck_velocity"],
        "torque_scale": truth["torque_scale"],
    }
    found: dict[str, tuple[Estimate, float]] = {name: (fit.parameters[name], value) for name, value in expected.items()}
    for side, name in ((motor, "motor_inertia"), (link, "link_inertia"), (link, "gravity_moment")):
        found[name] = with_gain(side.parameters[name], gain), truth[name]
    for name in ("stiffness_zero", "stiffness_load", "hysteresis_width"):
        found[name] = gear.parameters[name], gear_truth[name]
    return {name: [one.value, one.expanded_uncertainty, value] for name, (one, value) in found.items()}


def joint(seed: int, results: Path, root: Path) -> dict[str, Any]:
    """Return what was found of the joint of this seed, beside its truth."""
    made = {procedure: record(seed, procedure, specimen, results, root) for procedure, specimen in RUNS}
    sweep, truth = made["friction_sweep"]
    ramp, gear_truth = made["stiffness_ramp"]
    excitation, _ = made["fourier_excitation"]
    with Run.open(sweep) as run:
        friction = identify_friction(run)
    with Run.open(ramp) as run:
        gear = identify_stiffness(run)
    found = compare(friction, dynamics(excitation), gear, transducer_gain(root), truth, gear_truth)
    return {"seed": seed, "found": found}


if __name__ == "__main__":
    first, last, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    profiles = Path(__file__).resolve().parents[2] / "profiles"
    for number in range(first, last + 1):
        print(json.dumps(joint(number, folder, profiles)), flush=True)
        shutil.rmtree(folder)
