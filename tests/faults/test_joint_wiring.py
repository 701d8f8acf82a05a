"""What is wired or written wrongly about a joint is found by the first small motion, each under its own name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run
from bench.errors import SafetyAbort
from bench.procedures import perform
from bench.profile import JointRig, load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

Wrongly = Callable[..., Run]
LOW_SPEED = {"travel": "0.04 rad", "baseline_time": "0.2 s"}


@pytest.fixture
def wrongly(repository: Path, tmp_path: Path) -> Wrongly:
    """Run a procedure on a rig with something wrong, expect it to be stopped, return the archive."""

    def run(
        *,
        reason: str,
        message: str,
        mounted: str = "pendulum_arm",
        said: str = "pendulum_arm",
        procedure: str = "low_speed_tracking",
        gear_ratio: float | None = None,
        faults: tuple[str, ...] = (),
    ) -> Run:
        profiles = repository / "profiles"
        rig = load_rig(profiles / "rigs/single_joint.toml")
        assert isinstance(rig, JointRig)
        if gear_ratio is not None:
            rig = rig.model_copy(update={"drive": rig.drive.model_copy(update={"gear_ratio": gear_ratio})})
        # A stuck encoder is no witness that the joint stands, and the drive has no supply any more: nobody can tell.
        unseen = reason == "encoder_stuck"
        closing = pytest.raises(SafetyAbort, match="could not be made safe") if unseen else contextlib.nullcontext()
        with (
            closing,
            open_station(
                rig,
                "mock",
                twin=load_twin(profiles / "twins/single_joint.toml"),
                specimen=load_specimen(profiles / f"specimens/{mounted}.toml"),
                seed=3,
                faults=[{"name": name, "at_s": 0.0} for name in faults],
            ) as station,
        ):
            with pytest.raises(SafetyAbort, match=message) as stopped:
                perform(
                    station,
                    load_procedure(profiles / f"procedures/{procedure}.toml"),
                    load_specimen(profiles / f"specimens/{said}.toml"),
                    operator="A. Tester",
                    results_dir=tmp_path,
                    overrides=LOW_SPEED if procedure == "low_speed_tracking" else {},
                )
            assert station.drive.latched
            assert station.twin is not None
            assert not station.twin.control.report()["enable"]
        assert stopped.value.reason == (f"{reason}; safe_state_failed" if unseen else reason)
        archive = stopped.value.archive
        assert archive is not None
        return Run.open(archive)

    return run


@pytest.mark.parametrize(
    ("wrong", "reason", "message"),
    [
        ({"gear_ratio": 50.0}, "gear_ratio", r"the encoders say (99|100|101)\.. rotor turns .* profile says 50"),
        ({"faults": ("encoder_direction_swapped",)}, "encoder_direction", "counted the other way .*encoder.direction"),
        ({"faults": ("transducer_inverted",)}, "transducer_sign", "torque_transducer.sign"),
        ({"faults": ("stuck_encoder",)}, "encoder_stuck", r"the joint encoder saw 0\.. % of it"),
        ({"mounted": "output_lock"}, "joint_blocked", "locked output"),
    ],
)
def test_a_joint_that_moves_tells_what_is_wrong_before_anything_is_measured(
    wrongly: Wrongly, wrong: dict[str, Any], reason: str, message: str
) -> None:
    with wrongly(reason=reason, message=message, **wrong) as run:
        assert run.status == "ABORTED"
        assert run.reason.startswith(reason)
        assert run.phases == ()
        joint, motor = run.channel("joint_angle").values, run.channel("motor_angle").values / 100.0
        # A ratio that is twice the profile's makes twice the way of it; a tenth of a radian was asked for.
        assert max(abs(joint).max(), abs(motor).max()) < 0.25


@pytest.mark.parametrize(
    ("wrong", "reason", "message"),
    [
        ({"faults": ("transducer_inverted",), "mounted": "output_lock"}, "transducer_sign", "torque_transducer.sign"),
        ({"mounted": "pendulum_arm"}, "output_not_locked", "although the output is said to be locked"),
    ],
)
def test_a_locked_joint_is_pushed_gently_first(
    wrongly: Wrongly, wrong: dict[str, Any], reason: str, message: str
) -> None:
    with wrongly(reason=reason, message=message, said="output_lock", procedure="stiffness_ramp", **wrong) as run:
        assert run.phases == ()
        assert abs(run.channel("command_torque").values).max() * 100.0 < 3.0, "of the twelve of the ramp"
