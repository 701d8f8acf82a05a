"""A feed-forward file with a wrong unit, a slipped comma or exchanged bodies moves no arm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.errors import ProfileError
from bench.procedures.feedforward_file import load_for_arm, taken_from
from bench.profile import load_procedure


def scaled(key: str, factor: float, count: int = 0) -> Any:
    def change(text: str) -> str:
        found, times = re.subn(
            rf'\b{key} = "(\S+) ', lambda m: f'{key} = "{factor * float(m[1])!r} ', text, count=count
        )
        assert times
        return found

    return change


def exchanged(text: str) -> str:
    """The bodies of shoulder and elbow, under each other's names."""
    parts = text.split("[[joints]]")
    parts[2], parts[3] = (
        parts[3].replace('name = "elbow"', 'name = "shoulder"'),
        parts[2].replace('name = "shoulder"', 'name = "elbow"'),
    )
    return "[[joints]]".join(parts)


@pytest.fixture
def taken(simulated_arm: Any, repository: Path, tmp_path: Path) -> Any:
    """``taken(change)``: load the file of the nominal arm, changed, as a run does."""

    def load(change: Any) -> Any:
        path = tmp_path / "edited.toml"
        path.write_text(change(simulated_arm.feedforward_text()), encoding="utf-8")
        procedure = load_procedure(repository / "profiles/procedures/arm_tracking.toml")
        return load_for_arm(simulated_arm.rig, procedure, taken_from({"feedforward": str(path)})[1])

    return load


def test_the_file_of_the_arm_is_taken_and_so_is_one_whose_friction_is_twice_the_nominal(taken: Any) -> None:
    assert taken(lambda text: text).rig == "full_arm"
    assert taken(scaled("coulomb", 2.0)).rig == "full_arm"
    assert taken(scaled("mass", 1.1)).rig == "full_arm"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (scaled("mass", 1e-3), r"joint shoulder bears a weight that is up to .* from that of the nominal arm"),
        (scaled("mass", 0.5), r"joint shoulder bears a weight"),
        (scaled("mass", 10.0), r"joint shoulder bears a weight"),
        (exchanged, r"joint \w+ bears a weight|has .* times the inertia"),
        (scaled("motor_inertia", 100.0), r"has \S+ times the inertia of the nominal arm"),
        (scaled("coulomb", 1e-3), r"Coulomb friction of joint base is 0\.0024 N\.m, and the profile's is 2 N\.m"),
        (scaled("coulomb", 1e3), r"friction of joint base takes 2\.4e\+03 N\.m"),
    ],
)
def test_a_file_that_cannot_be_this_arms_is_refused_before_anything_moves(taken: Any, change: Any, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        taken(change)


def test_a_file_with_its_joints_in_another_order_is_refused(taken: Any) -> None:
    def reordered(text: str) -> str:
        parts = text.split("[[joints]]")
        return "[[joints]]".join([*parts[:2], parts[3], parts[2], *parts[4:]])

    with pytest.raises(ProfileError, match="has the joints base, elbow, shoulder, forearm"):
        taken(reordered)
