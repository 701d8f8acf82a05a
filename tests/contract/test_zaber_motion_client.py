"""The vendor's own client drives the twin's stage, over TCP and over a pseudo-terminal, paced to the wall clock.

It proves framing, checksums, ids, codes and units on the commands it uses; what firmware does beyond that is assumed
and written down in ``bench/twin/devices/zaber_ascii.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import nidaqmx
import numpy as np
import pytest

from bench.twin.process import TwinProcess, start_twin

motion = pytest.importorskip("zaber_motion", reason="the vendor's client is in the extra `peers`")
zaber = pytest.importorskip("zaber_motion.ascii")
failures = pytest.importorskip("zaber_motion.exceptions")

pytestmark = pytest.mark.peer

STEP_MM = 0.047625e-3
SPEED_2_MM_S = 68804
"""2 mm/s in the protocol's unit: microsteps per second times 1.6384."""


@pytest.fixture(scope="module", params=["tcp", "pty"])
def twin(request: pytest.FixtureRequest, repository: Path) -> Iterator[tuple[TwinProcess, str]]:
    """A twin in real time with its enable line high, and the address the client is to use."""
    way = request.param
    if way == "pty" and sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    motion.Library.disable_device_db_store()
    profiles = repository / "profiles"
    with (
        start_twin(
            profiles / "rigs" / "indenter.toml",
            profiles / "twins" / "indenter.toml",
            "liver_phantom_a",
            seed=1,
            real_time=True,
            **{way: True},
        ) as process,
        grpc.insecure_channel(process.grpc_address) as channel,
    ):
        options = nidaqmx.GrpcSessionOptions(channel, "")
        with nidaqmx.Task(grpc_options=options) as enable:
            enable.do_channels.add_do_chan("Dev1/port0/line1")
            enable.write(True)
            yield process, process.serial["stage"][way]


@pytest.fixture(scope="module")
def device(twin: tuple[TwinProcess, str]) -> Iterator[object]:
    _, address = twin
    if address.startswith("/"):
        connection = zaber.Connection.open_serial_port(address)
    else:
        host, _, port = address.rpartition(":")
        connection = zaber.Connection.open_tcp(host, int(port))
    with connection:
        connection.checksum_enabled = True
        (device,) = connection.detect_devices(identify_devices=False)
        yield device


@pytest.fixture(scope="module")
def axis(device):
    axis = device.get_axis(1)
    axis.driver_enable()
    axis.home()
    return axis


def test_homes(axis):
    assert axis.is_homed()
    assert axis.get_position() == 0.0
    assert axis.warnings.get_flags() == set()


def test_moves_and_reads_back(axis):
    axis.move_absolute(100_000)
    assert axis.get_position() == 100_000
    axis.move_relative(-20_000)
    assert axis.get_position() == 80_000
    assert axis.settings.get("encoder.pos") == pytest.approx(80_000, abs=50)
    axis.move_min()
    assert axis.get_position() == 0


def test_position_grows_by_two_millimetres_a_second(axis):
    """Slope of position against time over five seconds of a 2 mm/s move: 2 mm/s within 0.1 %."""
    axis.move_absolute(0)
    axis.move_absolute(round(13.0 / STEP_MM), wait_until_idle=False, velocity=SPEED_2_MM_S)
    time.sleep(0.3)  # up to speed
    moments, positions = [], []
    end = time.perf_counter() + 5.5
    while (before := time.perf_counter()) < end:
        position = axis.get_position()
        moments.append(((after := time.perf_counter()) + before) / 2)
        positions.append((position * STEP_MM, after - before))
    axis.stop()
    t, (x, wait) = np.array(moments), np.array(positions).T
    prompt = wait <= np.quantile(wait, 0.9)  # the others say less about when the position was taken
    (slope, _), covariance = np.polyfit(t[prompt], x[prompt], 1, cov=True)
    print(f"slope {slope:.6f} mm/s, standard error {covariance[0, 0] ** 0.5:.1e} mm/s, {prompt.sum()} readings")
    assert t[-1] - t[0] > 5.0
    assert slope == pytest.approx(2.0, rel=1e-3)


def test_velocity_and_stop(axis):
    axis.move_velocity(SPEED_2_MM_S)
    assert axis.is_busy()
    axis.stop()
    assert not axis.is_busy()


def test_interrupted_move_is_told(axis):
    axis.move_absolute(0)
    with ThreadPoolExecutor() as other:
        move = other.submit(axis.move_absolute, 200_000, velocity=SPEED_2_MM_S)
        while axis.get_position() < 1000:
            assert not move.done()
        axis.generic_command("stop")
        with pytest.raises(failures.MovementInterruptedException):
            move.result(10.0)


def test_rejections_are_understood(device, axis):
    with pytest.raises(failures.BadDataException):
        axis.move_absolute(10**8)
    with pytest.raises(failures.BadCommandException):
        axis.generic_command("juggle")
    with pytest.raises(failures.BadCommandException):
        device.settings.get("no.such.setting")


def test_settings_and_identity(device, axis):
    axis.settings.set("maxspeed", SPEED_2_MM_S)
    assert axis.settings.get("maxspeed") == SPEED_2_MM_S
    axis.settings.set("maxspeed", 10 * SPEED_2_MM_S)
    assert device.settings.get_string("system.serial") == "57012"
    assert device.settings.get_string("version") == "7.38"
    assert not axis.is_parked()


def test_long_messages_in_several_packets(device):
    text = " ".join(f"word{n:02d}" for n in range(30))
    assert device.generic_command(f"tools echo {text}").data == text


def test_stall_is_understood(twin, axis):
    process, _ = twin
    axis.move_absolute(0)
    axis.move_absolute(200_000, wait_until_idle=False, velocity=SPEED_2_MM_S)
    process.control.fault("stage_stall")
    with pytest.raises(failures.MovementFailedException) as caught:
        axis.wait_until_idle()
    assert caught.value.details.warnings == ["FS"]
    process.control.clear_fault("stage_stall")
    axis.home()
    assert axis.warnings.get_flags() == set()


def test_emergency_stop_is_understood(twin, axis):
    process, _ = twin
    axis.move_absolute(200_000, wait_until_idle=False, velocity=SPEED_2_MM_S)
    process.control.press_estop()
    with pytest.raises(failures.MovementFailedException) as caught:
        axis.wait_until_idle()
    assert "FH" in caught.value.details.warnings
    process.control.press_estop(False)
    axis.driver_enable()
    axis.home()
