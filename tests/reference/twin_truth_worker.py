"""Press one simulated specimen per seed, over the wire, and print what was found beside the truth, a JSON line each.

python tests/reference/twin_truth_worker.py FIRST LAST RESULTS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.acceptance.evidence import rig_facts
from bench.archive import Run
from bench.identify.contact_fit import fit_contact
from bench.identify.segment import presses_from_run
from bench.procedures import perform
from bench.profile import find_profile, load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

DEPTH_MM, SPEED_MM_S = 5.0, 2.0
#: The shipped procedure, shortened where nothing is learned: the holds still cover most of the slow relaxation.
SHORTER = {
    "replicates": 5,
    "second_speeds": ["1 mm/s"],
    "second_replicates": 1,
    "depth": "6 mm",
    "hold_time": "8 s",
    "residual_time": "1 s",
    "settle": "75 s",
    "block": "200 ms",
}


def press(seed: int, results: Path, root: Path) -> dict[str, Any]:
    """Return force and tangent stiffness at the reference depth, each with U, and the truth of this seed."""
    rig = load_rig(find_profile("rigs", "indenter", root))
    specimen = load_specimen(find_profile("specimens", "liver_phantom_a", root))
    procedure = load_procedure(find_profile("procedures", "indentation", root))
    twin = load_twin(find_profile("twins", "indenter", root))
    with open_station(rig, "mock", twin=twin, specimen=specimen, seed=seed) as station:
        path = perform(station, procedure, specimen, operator="test", results_dir=results, overrides=SHORTER)
        step = 0.01
        truth = station.twin.control.truth([DEPTH_MM - step, DEPTH_MM, DEPTH_MM + step], SPEED_MM_S)["force_N"]
    with Run.open(path) as run:
        facts = rig_facts(run)
        presses = presses_from_run(run)
    assert facts is not None
    assert facts.force is not None
    fit = fit_contact(
        presses,
        model="qlv2",
        contact="fit",
        frame=facts.frame,
        reference_depth_mm=DEPTH_MM,
        force_relative_uncertainty=facts.force.relative,
        capacity_N=facts.capacity_N,
    )
    force, stiffness = fit.force_at(DEPTH_MM, SPEED_MM_S), fit.stiffness_at(DEPTH_MM, SPEED_MM_S)
    return {
        "seed": seed,
        "model": fit.model,
        "force": [force.value, force.expanded_uncertainty, truth[1]],
        "stiffness": [stiffness.value, stiffness.expanded_uncertainty, (truth[2] - truth[0]) / (2.0 * step)],
    }


if __name__ == "__main__":
    first, last, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    profiles = Path(__file__).resolve().parents[2] / "profiles"
    for number in range(first, last + 1):
        print(json.dumps(press(number, folder, profiles)), flush=True)
