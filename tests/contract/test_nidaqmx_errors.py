"""The NI-DAQmx driver when things go wrong: every error says which device and channel, and what to do."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.errors import DaqDeviceError, InstrumentDisconnected, InstrumentTimeout
from bench.instruments.nidaqmx import NiDaq
from bench.instruments.nidaqmx_errors import DaqDisconnected, translate
from bench.instruments.protocols import LinearEncoder, VoltageInput
from bench.twin.process import start_twin

SIX = [VoltageInput(f"ai{k}") for k in range(6)]
SCALE = LinearEncoder("ctr0", distance_per_pulse_mm=0.004)


@pytest.fixture
def daq(daq_lab: Any) -> Iterator[NiDaq]:
    made = NiDaq("Dev1", server=daq_lab.address, clock=daq_lab)
    yield made
    made.close()


@pytest.fixture
def held(daq_lab: Any) -> Iterator[NiDaq]:
    """A driver whose deadline is short, on a server that may be made to hang."""
    made = NiDaq("Dev1", channel=daq_lab.channel(), rpc_deadline_s=0.3, clock=daq_lab)
    yield made
    made.close()


def started(daq: NiDaq) -> Any:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    return run


@pytest.mark.parametrize(
    ("action", "code", "where", "remedy"),
    [
        (
            lambda d: d.acquisition([VoltageInput("ai77")], [], 1000),
            -200170,
            "analog input ai77",
            "correct the channel",
        ),
        (lambda d: d.acquisition([VoltageInput("ai0", -20, 20)], [], 1000), -200077, "analog inputs ai0", "limits"),
        (lambda d: d.acquisition([VoltageInput("ai8")], [], 1000), -200430, "analog input ai8", "what is wired"),
        (lambda d: d.acquisition(SIX, [], 30_000), -201093, "analog inputs", "daq.sample_rate"),
        (
            lambda d: d.acquisition(SIX, [LinearEncoder("ctr9", 1)], 1000),
            -200170,
            "encoder ctr9",
            "correct the channel",
        ),
        (lambda d: d.digital_input("port7/line0"), -200170, "digital input port7/line0", "correct the channel"),
        (lambda d: d.digital_output("port0/line0"), -200430, "digital output port0/line0", "what is wired"),
        (lambda d: d.analog_output("ao0").write(11), -200561, "analog output ao0", "outside the output's range"),
        (lambda d: d.acquisition(SIX, [], 3000), 0, "analog inputs", "divides the device's clock"),
        (lambda d: d.acquisition([], [SCALE], 1000), 0, "DAQ Dev1", "add an analog input"),
        (lambda d: d.acquisition(SIX, [], 0), 0, "DAQ Dev1", "above zero"),
        (lambda d: d.acquisition(SIX, [LinearEncoder("ctr0", 1, "X3")], 1000), 0, "encoder ctr0", "X1, X2, X4"),
        (lambda d: d.acquisition([VoltageInput("ai0", terminal="single")], [], 1000), 0, "analog input ai0", "rse"),
        (lambda d: d.acquisition(SIX, [], 1000).read(1, 1.0), 0, "DAQ Dev1", "start()"),
    ],
)
def test_an_error_names_device_and_channel_code_and_remedy(
    daq: NiDaq, daq_lab: Any, action: Callable[[NiDaq], Any], code: int, where: str, remedy: str
) -> None:
    with pytest.raises(DaqDeviceError) as caught:
        action(daq)
    assert caught.value.code == code
    assert caught.value.where.startswith("DAQ Dev1")
    assert where in caught.value.where
    assert remedy in caught.value.remedy
    daq.close()
    assert not daq_lab.device.tasks  # nothing is left open on the server


def test_an_unknown_device_is_answered_with_those_there_are(daq_lab: Any) -> None:
    daq = NiDaq("Dev3", channel=daq_lab.channel(), clock=daq_lab)
    with pytest.raises(DaqDeviceError, match=r"no device 'Dev3'; there is Dev1"):
        daq.identify()


def test_what_a_killed_client_left_reserved_is_explained_and_can_be_cleared(daq: NiDaq, daq_lab: Any) -> None:
    killed = NiDaq("Dev1", channel=daq_lab.channel(), clock=daq_lab)
    killed.acquisition(SIX, [SCALE], 10_000).start()
    daq_lab.channels[-1].close()  # its sockets close, its sessions stay
    run = daq.acquisition(SIX, [SCALE], 10_000)
    with pytest.raises(DaqDeviceError) as caught:
        run.start()
    assert caught.value.code == -50103
    assert "NiDaq.reset()" in caught.value.remedy
    assert "encoder ctr0" in caught.value.where
    daq.reset()
    with pytest.raises(DaqDeviceError, match=r"DAQmx -200088"):
        run.start()  # its session went with the reset
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    assert run.read(10, 1.0).analog.shape == (10, 6)


def test_an_unplugged_device_is_a_lost_instrument(daq: NiDaq, daq_lab: Any) -> None:
    run = started(daq)
    daq_lab.device.fault("daq_unplugged")
    with pytest.raises(InstrumentDisconnected, match=r"DAQmx -201003"):
        run.read(10, 1.0)
    daq_lab.device.plug_in()


@pytest.mark.parametrize("moment", ["reading", "opening", "identifying"])
def test_a_frozen_server_is_given_up_at_the_deadline(held: NiDaq, daq_lab: Any, moment: str) -> None:
    run = started(held)
    action = {
        "reading": lambda: run.read(10, 0.1),
        "opening": lambda: held.digital_input("port0/line0"),
        "identifying": held.identify,
    }[moment]
    with daq_lab.world.lock, pytest.raises(InstrumentTimeout, match=r"did not answer before the deadline"):
        action()  # every handler of the server waits for the lock


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_stopped_server_process_is_given_up_and_found_again(repository: Path) -> None:
    with start_twin(repository / "profiles" / "rigs" / "indenter.toml") as twin:
        daq = NiDaq("Dev1", server=twin.grpc_address, rpc_deadline_s=0.5)
        enable = daq.digital_output("port0/line1")
        os.kill(twin.pid, signal.SIGSTOP)
        try:
            with pytest.raises(InstrumentTimeout, match=r"did not answer before the deadline"):
                enable.write(False)
        finally:
            os.kill(twin.pid, signal.SIGCONT)
        enable.write(False)
        daq.close()


def test_a_server_that_accepts_and_says_nothing_is_given_up_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        daq = NiDaq("Dev1", server=f"127.0.0.1:{mute.getsockname()[1]}", rpc_deadline_s=0.3)
        with pytest.raises(InstrumentTimeout):
            daq.digital_input("port0/line0")
        daq.close()


def test_a_server_that_died_is_a_lost_instrument(daq: NiDaq, daq_lab: Any) -> None:
    run = started(daq)
    run.read(10, 1.0)
    daq_lab.stop()
    for action in (lambda: run.read(10, 1.0), lambda: daq.digital_input("port0/line0"), daq.identify):
        with pytest.raises(DaqDisconnected, match=r"device server does not answer"):
            action()
    with pytest.raises(DaqDisconnected):
        daq.close()


def test_without_a_driver_the_module_imports_and_says_what_to_do() -> None:
    from nidaqmx.errors import DaqNotFoundError

    error = translate(DaqNotFoundError("Could not find an installation of NI-DAQmx."), "DAQ Dev1")
    assert isinstance(error, DaqDeviceError)
    assert "daq.server" in error.remedy
    assert translate(KeyError("x"), "DAQ Dev1") is None
    with pytest.raises(DaqDeviceError):
        NiDaq("no such device").identify()  # with no driver, or with one that knows no such device


def test_a_target_is_a_server_or_a_channel_not_both() -> None:
    with pytest.raises(DaqDeviceError, match="both a server"):
        NiDaq("Dev1", server="localhost:1", channel=object())
    with pytest.raises(DaqDeviceError, match="RPC deadline is 0 s"):
        NiDaq("Dev1", rpc_deadline_s=0)


def test_closing_goes_on_past_a_failure(daq: NiDaq, daq_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started(daq)
    daq.digital_output("port0/line1")
    first, clear = next(iter(daq_lab.device.tasks.values())), daq_lab.device.clear

    def fail_first(task: Any) -> None:
        clear(task)
        if task is first:
            raise task.error(-201003)

    monkeypatch.setattr(daq_lab.device, "clear", fail_first)
    with pytest.raises(DaqDeviceError, match=r"DAQmx -201003"):
        daq.close()
    assert not daq_lab.device.tasks


def test_closing_what_a_reset_has_cleared_is_no_error(daq: NiDaq) -> None:
    run = started(daq)
    enable = daq.digital_output("port0/line1")
    daq.reset()
    enable.close()
    run.close()
    daq.close()
