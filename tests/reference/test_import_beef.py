"""Real measurements through the importer: every curve arrives, and its peak is the one the machine's software found.

Beef indentation on a Zwick machine, github.com/SarahIaquinta/perineal_indentation (GPL-3.0), 10 Hz, 500 N cell.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bench.archive import Channel, Run, verify_digest

pytestmark = pytest.mark.reference


def peak_between_samples(force: Channel) -> float:
    """Return the top of the parabola through the highest sample and its neighbours [N].

    The machine's software looks at its own, faster samples; the export at 10 Hz clips the peak by up to 1.5 %.
    """
    i = int(np.argmax(force.values))
    before, top, after = force.values[i - 1 : i + 2]
    return float(top - (before - after) ** 2 / (8.0 * (before - 2.0 * top + after)))


def test_all_curves_are_imported_with_the_peak_of_the_index(curves: list[Path], beef: Path) -> None:
    text = (beef / "index.csv").read_text(encoding="utf-8")
    index = {row["name"]: row for row in csv.DictReader(text.splitlines())}
    assert len(curves) == len(index) == 95
    for path in curves:
        with Run.open(path) as run:
            expected = index[run.name]
            force = run.get("contact_force", unit="N", kind="force")
            depth = run.get("encoder_position", unit="mm", kind="length")
            assert len(force.values) == int(expected["n"])
            assert force.values.max() == pytest.approx(float(expected["Fmax"]), rel=2e-4)  # printed to four places
            assert depth.values[force.values.argmax()] == pytest.approx(float(expected["d_at_Fmax"]), abs=1e-3)
            assert np.diff(force.time_s) == pytest.approx(0.1, abs=1e-6)


def test_every_archive_of_a_curve_verifies(curves: list[Path]) -> None:
    assert len({verify_digest(path) for path in curves}) == 95


def test_the_workbook_gives_one_archive_per_curve_and_no_averages(sheets: list[Path]) -> None:
    names = []
    for path in sheets:
        with Run.open(path) as run:
            names.append(run.provenance["details"]["source"]["sheet"])
            assert run.provenance["operator"] != "not stated"
            assert run.provenance["details"]["metadata"]["air_temperature"]["unit"] == "degC"
            assert run.started_utc.startswith("2023-03-27")
    assert len(names) == 17
    assert not any("moyenne" in name.lower() or "tats" in name for name in names)


def test_the_peak_agrees_with_the_machines_own_result(sheets: list[Path]) -> None:
    for path in sheets:
        with Run.open(path) as run:
            force = run.get("contact_force", unit="N", kind="force")
            metadata = run.provenance["details"]["metadata"]
            machine = metadata["machine_peak_force"]["value"]
            assert force.values.max() <= machine * (1 + 1e-6)
            assert force.values.max() == pytest.approx(machine, rel=0.0155)
            assert peak_between_samples(force) == pytest.approx(machine, rel=0.015)
            depth = run.get("encoder_position", unit="mm").values[force.values.argmax()]
            assert depth == pytest.approx(metadata["machine_displacement_at_peak"]["value"], abs=0.1)  # one sample


def test_the_workbook_and_the_text_files_hold_the_same_curves(sheets: list[Path], curves: list[Path]) -> None:
    texts = {path.name.partition("_")[2]: path for path in curves}
    for path in sheets:
        with Run.open(path) as sheet:
            name = sheet.provenance["details"]["source"]["sheet"].replace(" ", "_")
            with Run.open(texts[f"zwick_230327_{name}.h5"]) as text:
                for channel in ("contact_force", "encoder_position"):
                    assert sheet.channel(channel).values == pytest.approx(text.channel(channel).values, abs=2e-6)
