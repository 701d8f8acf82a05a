"""Trajectory files: the same series bit for bit, complete, held to the rig's limits, problems named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from bench.errors import LimitError, ProfileError
from bench.identify.excitation import compare
from bench.identify.excitation_cost import condition_along
from bench.profile import TrajectoryProfile, check_folder, load_rig, load_specimen, load_trajectory
from bench.trajectory import check_trajectory, fourier_path, same_model, trajectory_text

NAMES = ("full_arm_train", "full_arm_hold_out")


@pytest.fixture
def written(excitation: Any, tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(
        trajectory_text(excitation, name="small", arm="full_arm", specimen="bare_tool", description='a "b"')
    )
    return file


def test_a_file_gives_the_same_samples_bit_for_bit(excitation: Any, written: Path) -> None:
    profile = load_trajectory(written)
    path = fourier_path(profile)
    times = excitation.path.times(250.0)
    for ours, theirs in zip(excitation.path.sample(times), path.sample(path.times(250.0)), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    assert [x.tobytes() for x in excitation.path.at(3.3)] == [x.tobytes() for x in path.at(3.3)]
    assert profile.condition_number == pytest.approx(excitation.condition_number, rel=1e-5)
    assert (profile.seed, profile.evaluations, profile.columns) == (1, excitation.evaluations, 58)
    assert profile.model_digest == excitation.model_digest
    assert profile.description == 'a "b"'
    assert profile.joints[1].number("torque_limit") == excitation.limits.torque[1]
    assert profile.joints[1].number("position_min") == excitation.limits.position_min[1]
    assert check_folder(written) == []


def test_the_formula_in_the_file_gives_the_positions(written: Path) -> None:
    """As another program would read it: with nothing but what stands in the file."""
    import tomllib

    raw = tomllib.loads(written.read_text())
    hz, t = float(raw["base_frequency"].split()[0]), 4.321
    path = fourier_path(load_trajectory(written))
    for j, joint in enumerate(raw["joints"]):
        angle = [2.0 * np.pi * h * hz * t for h in raw["harmonics"]]
        q = float(joint["offset"].split()[0])
        q += sum(a * np.cos(x) + b * np.sin(x) for a, b, x in zip(joint["cosine"], joint["sine"], angle, strict=True))
        assert path.at(t)[0][j] == pytest.approx(q, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_trajectories_keep_every_limit_of_the_rig(bed: Any, repository: Path, name: str) -> None:
    profile = load_trajectory(repository / "profiles" / "trajectories" / f"{name}.toml")
    bare = load_specimen(repository / "profiles" / "specimens" / "bare_tool.toml")
    rows = check_trajectory(profile, bed.rig, bare)
    assert all(row.ok for row in rows)
    path = fourier_path(profile)
    assert condition_along(path, bed.columns, 1000) == pytest.approx(profile.condition_number, rel=1e-3)
    assert profile.condition_number <= 8.0
    assert path.duration_s <= 30.0
    assert same_model(profile, bed.rig, bare)
    # a joint that hardly moves has a well-scaled column too, and an inertia nobody can tell
    speed = path.sample(path.times(250.0))[1]
    assert np.all(np.abs(speed).max(axis=0) > 0.3 * bed.limits.speed)


def test_the_shipped_trajectories_are_different_ones(repository: Path) -> None:
    train, held = (
        fourier_path(load_trajectory(repository / "profiles" / "trajectories" / f"{name}.toml")) for name in NAMES
    )
    assert train.base_hz != held.base_hz
    assert not any(match.repeat for match in compare(train, held))


def changed(written: Path, old: str, new: str, count: int = 1) -> Path:
    text = written.read_text()
    assert old in text
    written.write_text(text.replace(old, new, count))
    return written


def test_a_trajectory_beyond_the_rigs_limits_is_refused_before_it_moves(bed: Any, written: Path) -> None:
    text = written.read_text()
    offset = next(line for line in text.splitlines() if line.startswith("offset"))
    profile = load_trajectory(changed(written, offset, 'offset = "150 deg"'))
    with pytest.raises(LimitError, match=r"position of base is .* margin -.* rad, at .* in the pose \[") as refused:
        check_trajectory(profile, bed.rig)
    assert refused.value.reason == "trajectory"
    assert "bench design" in refused.value.remedy


def test_a_trajectory_of_another_arm_is_refused(bed: Any, written: Path) -> None:
    profile = load_trajectory(changed(written, 'name = "elbow"', 'name = "knee"'))
    with pytest.raises(LimitError, match="knee") as refused:
        check_trajectory(profile, bed.rig)
    assert refused.value.reason == "other_arm"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('duration = "20.0 s"', 'duration = "21 s"', "duration"),
        ("harmonics = [1, 2,", "harmonics = [2, 1,", "increase"),
        ("periods = 1", "periods = 0", "periods"),
        ("cos(2 pi", "cos(pi", "knows no other series"),
        ("harmonics = [1, 2, 3, 4, 5, 6, 7, 8]", "harmonics = [1, 2, 3, 4, 5, 6, 7]", "one of each of harmonics"),
        ('speed_limit = "1.8 rad/s"', 'speed_limit = "1.8 m/s"', "angular speed"),
        ('name = "wrist"', 'name = "elbow"', "no other joint"),
    ],
)
def test_problems_of_a_file_are_named(written: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        load_trajectory(changed(written, old, new))


def test_rounded_coefficients_that_no_longer_start_at_rest_are_named(written: Path) -> None:
    lines = written.read_text().splitlines()
    at = lines.index("sine = [") + 1
    first = lines[at].strip().split(",")[0]
    with pytest.raises(ProfileError, match=r"joints\[0\].sine.*Were coefficients rounded"):
        load_trajectory(changed(written, first, f"{float(first):.4f}"))


def test_the_command_designs_a_file(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    out = tmp_path / "mine.toml"
    command = ["design", "full_arm", "fourier_excitation", "-o", str(out), "--seed", "4", "--evaluations", "30"]
    assert main(command) == 0
    profile = load_trajectory(out)
    assert isinstance(profile, TrajectoryProfile)
    assert (profile.name, profile.seed, profile.arm, profile.evaluations) == ("mine", 4, "full_arm", 30)
    assert "condition number" in capsys.readouterr().out
    assert main([*command, "--base-frequency", "4 Hz"]) == 1
    assert "18 Hz" in capsys.readouterr().out
    rig = load_rig(repository / "profiles" / "rigs" / "full_arm.toml")
    assert rig.name == profile.arm
