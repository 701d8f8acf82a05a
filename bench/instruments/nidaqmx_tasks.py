"""The rig's channels as NI-DAQmx channels: names, terminals, units and scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.errors import DaqDeviceError
from bench.instruments.protocols import AnalogChannel, AngularEncoder, EncoderChannel, VoltageInput

DECODINGS = ("X1", "X2", "X4")


def check_request(
    where: str, analog: Sequence[AnalogChannel], encoders: Sequence[EncoderChannel], rate_hz: float, buffer_s: float
) -> None:
    """Raise when an acquisition of these channels makes no sense on this kind of device."""
    if not analog:
        raise DaqDeviceError(
            f"an acquisition of {len(encoders)} encoders and no analog input",
            where=where,
            remedy="Counters have no sample clock of their own: add an analog input, its clock is shared",
        )
    if not (rate_hz > 0 and buffer_s > 0):
        raise DaqDeviceError(
            f"sample rate {rate_hz:g} Hz, buffer {buffer_s:g} s", where=where, remedy="Both must be above zero"
        )
    for encoder in encoders:
        if encoder.decoding not in DECODINGS:
            raise DaqDeviceError(
                f"decoding {encoder.decoding!r}",
                where=f"{where}, encoder {encoder.counter}",
                remedy=f"Use one of {', '.join(DECODINGS)}",
            )


def physical(device: str, channel: str) -> str:
    """Return ``Dev1/ai0`` for ``ai0``; a name that has its device keeps it."""
    return channel if channel.startswith(f"{device}/") else f"{device}/{channel}"


def add_analog(task: Any, device: str, channel: AnalogChannel) -> None:
    """Add a voltage input, read in V, or a bridge, read in mV/V."""
    from nidaqmx.constants import BridgeConfiguration, BridgeUnits, ExcitationSource, TerminalConfiguration

    if isinstance(channel, VoltageInput):
        terminals = {
            "differential": TerminalConfiguration.DIFF,
            "pseudodifferential": TerminalConfiguration.PSEUDO_DIFF,
            "rse": TerminalConfiguration.RSE,
            "nrse": TerminalConfiguration.NRSE,
            "default": TerminalConfiguration.DEFAULT,
        }
        task.ai_channels.add_ai_voltage_chan(
            physical(device, channel.channel),
            terminal_config=_choice(channel.terminal, terminals, f"DAQ {device}, analog input {channel.channel}"),
            min_val=channel.minimum_v,
            max_val=channel.maximum_v,
        )
        return
    bridges = {
        "full": BridgeConfiguration.FULL_BRIDGE,
        "half": BridgeConfiguration.HALF_BRIDGE,
        "quarter": BridgeConfiguration.QUARTER_BRIDGE,
    }
    task.ai_channels.add_ai_bridge_chan(
        physical(device, channel.channel),
        min_val=channel.minimum_mv_v,
        max_val=channel.maximum_mv_v,
        units=BridgeUnits.MILLIVOLTS_PER_VOLT,
        bridge_config=_choice(channel.bridge, bridges, f"DAQ {device}, bridge input {channel.channel}"),
        voltage_excit_source=ExcitationSource.INTERNAL,
        voltage_excit_val=channel.excitation_v,
        nominal_bridge_resistance=channel.nominal_resistance_ohm,
    )


def add_encoder(task: Any, device: str, encoder: EncoderChannel) -> float:
    """Add the counter; return what its readings are to be multiplied with."""
    from nidaqmx.constants import AngleUnits, EncoderType, LengthUnits

    decoding = {"X1": EncoderType.X_1, "X2": EncoderType.X_2, "X4": EncoderType.X_4}[encoder.decoding]
    counter = physical(device, encoder.counter)
    if isinstance(encoder, AngularEncoder):
        task.ci_channels.add_ci_ang_encoder_chan(
            counter,
            decoding_type=decoding,
            units=AngleUnits.RADIANS,
            pulses_per_rev=encoder.pulses_per_revolution,
            initial_angle=encoder.initial_rad,
        )
        return 1.0
    task.ci_channels.add_ci_lin_encoder_chan(
        counter,
        decoding_type=decoding,
        units=LengthUnits.METERS,
        dist_per_pulse=encoder.distance_per_pulse_mm * 1e-3,
        initial_pos=encoder.initial_mm * 1e-3,
    )
    return 1e3


def _choice(name: str, known: dict[str, Any], where: str) -> Any:
    if name not in known:
        raise DaqDeviceError(f"unknown setting {name!r}", where=where, remedy=f"Use one of {', '.join(known)}")
    return known[name]
