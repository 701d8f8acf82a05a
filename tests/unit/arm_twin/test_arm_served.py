"""The arm's twin as a process: its servos over the line, its lines and gauges by the control channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.arm import drivetrain
from bench.clock import sleep
from bench.instruments.dynamixel import DynamixelBus, Servo
from bench.profile.rig_arm import ArmRig
from bench.twin.link import Link
from bench.twin.process import TwinProcess, start_twin


@pytest.fixture
def twin(repository: Path) -> Iterator[TwinProcess]:
    rig, truth = (repository / "profiles" / folder / "full_arm.toml" for folder in ("rigs", "twins"))
    with start_twin(rig, truth, "payload_1kg", seed=1) as process:
        yield process


def test_the_served_twin_tells_its_state_truth_and_history(twin: TwinProcess) -> None:
    truth, state = twin.control.truth(), twin.control.report()
    assert truth["mounted"] == "payload_1kg"
    assert len(truth["coulomb"]) == 6
    assert state["joint_position_rad"] == pytest.approx(truth["start"])
    assert not state["powered"]
    assert state["braked"]
    history = twin.control.history()
    assert history["force_z_N"].shape == history["joint_1_position_rad"].shape


def test_servos_that_have_their_supply_say_where_the_arm_stands(twin: TwinProcess, rig: ArmRig) -> None:
    from nidaqmx import Task
    from nidaqmx.grpc_session_options import GrpcSessionOptions

    from bench.twin.link import grpc_channel

    link = Link.connect(twin.link_address)
    channel = grpc_channel(twin.grpc_address, link)
    servos = [Servo(servo.id, servo.model, servo.max_current.to("A")) for servo in rig.servos]
    try:
        with Task(new_task_name="enable", grpc_options=GrpcSessionOptions(channel, "enable")) as task:
            task.do_channels.add_do_chan("Dev1/port0/line1")
            task.write(True)
            sleep(link.clock, 0.6)  # they boot
            bus = DynamixelBus(link.url("arm"), clock=link.clock, servos=servos)
            state, health = bus.read(), bus.health()
            bus.close()
    finally:
        link.close()
        channel.close()
    joints = drivetrain(rig.arm).joint_position(np.array(state.position_rad))
    found = twin.control.report()
    assert joints == pytest.approx(found["joint_position_rad"], abs=2e-3)  # but for the springs
    assert found["powered"]
    assert found["braked"]
    assert health.temperature_degc == [25.0] * 6
    assert health.supply_v == pytest.approx([24.0] * 6, abs=0.1)
