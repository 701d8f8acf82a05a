"""The whole procedure over the wire: driver, protocol, twin, loop, archive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import Run
from bench.identify.plate import estimate_frame_stiffness
from bench.instruments.ati_cal import AtiCalibration, AtiForceTorque
from bench.instruments.protocols import VoltageInput
from bench.procedures import perform
from bench.profile import load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

ORDER = ["baseline", "approach", "press", "hold", "unload", "residual", "retract"]
OpenRig = Callable[..., Any]


def record(open_rig: OpenRig, repository: Path, to: Path, procedure: str, specimen: str, **options: Any) -> Path:
    profiles = repository / "profiles"
    with open_rig(specimen, **options) as station:
        return perform(
            station,
            load_procedure(profiles / "procedures" / f"{procedure}.toml"),
            load_specimen(profiles / "specimens" / f"{specimen}.toml"),
            operator="A. Tester",
            results_dir=to,
            criteria_texts={"acceptance/some.toml": "# criteria\n"},
        )


@pytest.fixture(scope="module")
def path(open_rig: OpenRig, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(
        open_rig, repository, tmp_path_factory.mktemp("runs"), "indentation_short", "liver_phantom_a", seed=11
    )


@pytest.fixture(scope="module")
def run(path: Path) -> Iterator[Run]:
    with Run.open(path) as opened:
        yield opened


def test_the_record_is_complete_and_says_what_it_is(run: Run) -> None:
    assert (run.status, run.simulated, run.backend) == ("COMPLETE", True, "mock")
    assert run.provenance["operator"] == "A. Tester"
    assert run.provenance["seed"] == 11
    assert [(i["name"], i["serial_number"]) for i in run.provenance["instruments"]] == [
        ("zaber_ascii", "57012"),
        ("daq", "01F2A3B4"),
        ("force_sensor", "FT90001"),
    ]
    assert {c["certificate"] for c in run.provenance["calibrations"]} >= {"SYN-FT-0001", "SYN-EN-0001"}
    assert set(run.texts) == {
        "rig.toml",
        "procedure.toml",
        "specimen.toml",
        "acceptance/some.toml",
        "calibration/ft90001.cal",
    }
    assert "liver_phantom_a" not in str(run.provenance["details"]["twin"]), "the truth stays out of the archive"
    expected = {f"gauge_{i}" for i in range(6)} | {f"tare_gauge_{i}" for i in range(6)}
    expected |= {f"{load}_{axis}" for load in ("force", "torque") for axis in "xyz"}
    assert set(run.channels()) == expected | {"contact_force", "encoder_position", "stage_position"}


def test_no_sample_is_missing_and_all_share_one_time_base(run: Run) -> None:
    raw, force, encoder = run.channel("gauge_0"), run.channel("contact_force"), run.channel("encoder_position")
    expected = np.arange(len(raw.values)) / 1000.0
    for channel in (raw, force, encoder):
        np.testing.assert_array_equal(channel.time_s, expected)
    assert run.phases[-1].end_s < expected[-1]


def test_every_replicate_has_its_phases_in_order_and_without_holes(run: Run) -> None:
    replicates = sorted({phase.replicate for phase in run.phases})
    assert replicates == [1, 2, 3]
    for number in replicates:
        phases = [phase for phase in run.phases if phase.replicate == number]
        assert [phase.name for phase in phases] == ORDER
        for before, after in pairwise(phases):
            assert before.start_s < before.end_s
            assert abs(after.start_s - before.end_s) < 0.02, f"hole between {before.name} and {after.name}"
        lengths = {phase.name: phase.end_s - phase.start_s for phase in phases}
        for name, asked in (("baseline", 1.0), ("hold", 2.0), ("residual", 2.0)):
            assert asked - 1e-9 <= lengths[name] < asked + 0.35, name
    presses = [phase for phase in run.phases if phase.name == "press"]
    assert [press.speed_mm_s for press in presses] == [2.0, 2.0, 1.0]
    assert [event.code for event in run.events].count("press_ended_by_depth") == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_tool_moves_as_commanded(run: Run, number: int) -> None:
    phases = {phase.name: phase for phase in run.phases if phase.replicate == number}
    encoder, force = run.get("encoder_position", unit="mm", kind="length"), run.get("contact_force", unit="N")

    def during(start_s: float, end_s: float) -> slice:
        return slice(*np.searchsorted(encoder.time_s, (start_s, end_s)))

    still = encoder.values[during(phases["baseline"].start_s + 0.01, phases["baseline"].end_s - 0.01)]
    assert np.ptp(still) < 0.006
    # A tenth of a second is left at either end, where the stage gains and loses its speed.
    moving = during(phases["approach"].start_s + 0.1, phases["press"].end_s - 0.1)
    slope = np.polyfit(encoder.time_s[moving], encoder.values[moving], 1)[0]
    assert slope == pytest.approx(phases["press"].speed_mm_s, rel=1e-3)
    free_air = encoder.values[during(phases["approach"].start_s, phases["approach"].end_s)]
    assert np.ptp(free_air) >= 2.0
    touch = encoder.values[during(phases["press"].start_s, phases["press"].end_s)][0]
    hold = encoder.values[during(phases["hold"].start_s, phases["hold"].end_s)]
    assert np.median(hold) - touch == pytest.approx(4.0, abs=0.01)
    assert np.ptp(hold) < 0.015
    residual = encoder.values[during(phases["residual"].start_s, phases["residual"].end_s)]
    assert np.median(residual) == pytest.approx(touch, abs=0.01)
    noise = force.values[during(phases["baseline"].start_s, phases["baseline"].end_s)].std()
    assert force.values[during(phases["press"].start_s, phases["press"].end_s)].max() > 100 * noise


def test_forces_are_what_the_archive_says_they_are_to_the_last_bit(run: Run, tmp_path: Path) -> None:
    raw = np.column_stack([run.channel(f"gauge_{index}").values for index in range(6)])
    zero = np.array([run.channel(f"tare_gauge_{index}").values[0] for index in range(6)])
    tared = int(run.channel("tare_gauge_0").time_s[0] * 1000)
    np.testing.assert_array_equal(raw[:tared].mean(axis=0), zero)

    text = tmp_path / "from_the_archive.cal"
    text.write_bytes(run.texts["calibration/ft90001.cal"].encode())
    sensor = AtiForceTorque(
        AtiCalibration.read(text), [VoltageInput(f"ai{index}") for index in range(6)], pressing_axis="Fz", sign=-1
    )
    sensor.tare(raw[:tared])
    forces, torques = sensor.convert(raw)
    for index, axis in enumerate("xyz"):
        np.testing.assert_array_equal(forces[:, index], run.channel(f"force_{axis}").values)
        np.testing.assert_array_equal(torques[:, index], run.channel(f"torque_{axis}").values)
    np.testing.assert_array_equal(sensor.contact_force(forces), run.channel("contact_force").values)


def test_the_stage_is_polled_about_ten_times_a_second(run: Run) -> None:
    stage, encoder = run.channel("stage_position"), run.channel("encoder_position")
    steps = np.diff(stage.time_s)
    assert 0.08 < np.median(steps) < 0.12
    assert steps.max() < 0.6, "while the tool stands clear of the specimen"
    # They differ by how far the axis lags behind its trajectory at the approach speed, not by more.
    off = stage.values - np.interp(stage.time_s, encoder.time_s, encoder.values)
    assert np.abs(off).max() < 10.0 * 0.02


def channels_of(path: Path) -> dict[str, np.ndarray]:
    with Run.open(path) as run:
        found = {name: run.channel(name).values for name in run.channels()}
        found |= {f"{name} time": run.channel(name).time_s for name in run.channels()}
        found["phases"] = np.array([(p.replicate, p.speed_mm_s, p.start_s, p.end_s) for p in run.phases])
        return found


def test_the_same_seed_gives_the_same_bits_also_beside_busy_programs(
    open_rig: OpenRig, repository: Path, tmp_path: Path, path: Path
) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        again = record(open_rig, repository, tmp_path, "indentation_short", "liver_phantom_a", seed=11)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    first, second = channels_of(path), channels_of(again)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


def test_another_seed_gives_another_record(open_rig: OpenRig, repository: Path, tmp_path: Path, path: Path) -> None:
    other = record(open_rig, repository, tmp_path, "indentation_short", "liver_phantom_a", seed=12)
    first, second = channels_of(path), channels_of(other)
    count = min(len(first["contact_force"]), len(second["contact_force"]))
    assert not np.array_equal(first["contact_force"][:count], second["contact_force"][:count])


def test_the_load_cell_rig_runs_the_same_procedure(open_rig: OpenRig, repository: Path, tmp_path: Path) -> None:
    path = record(
        open_rig, repository, tmp_path, "indentation_short", "liver_phantom_a", rig="indenter_load_cell", seed=2
    )
    with Run.open(path) as run:
        assert run.status == "COMPLETE"
        assert run.channel("bridge_0").unit == "mV/V"
        assert [phase.name for phase in run.phases] == ORDER * 3


def test_an_encoder_mounted_the_other_way_round_is_turned_by_the_profile(repository: Path, tmp_path: Path) -> None:
    profiles = repository / "profiles"
    (tmp_path / "ft90001.cal").write_bytes((profiles / "rigs/ft90001.cal").read_bytes())
    turned = tmp_path / "indenter.toml"
    text = (profiles / "rigs/indenter.toml").read_text(encoding="utf-8")
    assert "\ndirection = 1" in text
    turned.write_text(text.replace("\ndirection = 1", "\ndirection = -1"), encoding="utf-8")
    specimen = load_specimen(profiles / "specimens/liver_phantom_a.toml")
    with open_station(
        load_rig(turned), "mock", twin=load_twin(profiles / "twins/indenter.toml"), specimen=specimen, seed=6
    ) as station:
        path = perform(
            station,
            load_procedure(profiles / "procedures/indentation_short.toml"),
            specimen,
            operator="A. Tester",
            results_dir=tmp_path,
            overrides={"replicates": 1, "hold_time": "0.5 s", "residual_time": "0.5 s", "settle": "0.5 s"},
        )
    with Run.open(path) as run:
        encoder, stage = run.get("encoder_position", unit="mm"), run.get("stage_position", unit="mm")
        assert encoder.values.max() == pytest.approx(stage.values.max(), abs=0.1)
        assert encoder.values.min() == pytest.approx(0.0, abs=0.02)
        assert run.texts["procedure.toml"].startswith("# indentation_short.toml, changed for this run: replicates")


def test_a_plate_shows_the_stiffness_of_the_frame(open_rig: OpenRig, repository: Path, tmp_path: Path) -> None:
    path = record(open_rig, repository, tmp_path, "frame_stiffness", "rigid_plate", seed=3)
    with Run.open(path) as run:
        names = [phase.name for phase in run.phases]
        assert names.count("press") == names.count("unload") == names.count("retract") == 3
        assert names.count("dwell_up") == names.count("dwell_down") == 18
        assert run.get("contact_force").values.max() == pytest.approx(15.0, rel=0.05)
        stiffness = estimate_frame_stiffness(run)
    # The frame's 200 N/mm in series with the plate's 50 kN/mm.
    truth = 1 / (1 / 200.0 + 1 / 50_000.0)
    assert abs(stiffness.value - truth) <= stiffness.expanded_uncertainty
    assert stiffness.value == pytest.approx(truth, rel=0.02)
    assert stiffness.expanded_uncertainty < 0.06 * stiffness.value
