"""A membrane that gives way, from the wire to the analysis: where it ruptured, and what it was until then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run
from bench.errors import Refused
from bench.identify.contact_fit import fit_contact
from bench.identify.contact_point import estimate_contact
from bench.identify.frame import Frame
from bench.identify.puncture import before_rupture, detect_rupture
from bench.identify.segment import presses_from_run
from bench.procedures import perform
from bench.profile import load_procedure, load_specimen


def test_the_rupture_is_found_and_only_what_came_before_it_is_fitted(
    open_rig: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    procedure = load_procedure(repository / "profiles/procedures/puncture.toml")
    specimen = load_specimen(repository / "profiles/specimens/puncture_phantom.toml")
    with open_rig("puncture_phantom", seed=1) as station:
        path = perform(station, procedure, specimen, operator="A. Tester", results_dir=tmp_path)
        truth = station.twin.control.truth([5.0], 2.0)
        frame = Frame.from_profile(station.rig.frame)
    with Run.open(path) as run:
        first, second = presses_from_run(run)
    assert truth["ruptured"]

    rupture = detect_rupture(first, estimate_contact(first, "power_law"), frame=frame)
    assert rupture is not None
    assert abs(rupture.depth.value - truth["specimen"]["rupture_depth_mm"]) <= rupture.depth.expanded_uncertainty
    assert detect_rupture(second, estimate_contact(second, "power_law"), frame=frame) is None  # it has ruptured before

    with pytest.raises(Refused, match="rupture"):
        fit_contact([first], model="qlv1", frame=frame, segments=("rise",))
    whole = before_rupture(first, rupture)
    fit = fit_contact([whole], model="qlv1", frame=frame, segments=("rise",), reference_depth_mm=5.0)
    force = truth["force_N"][0] * truth["replicate_factors"][0]
    assert fit.force_at(5.0, 2.0).value == pytest.approx(force, rel=0.02)
