"""How a rig that somebody left behind is seen to stand, before it gets power: by what the DAQ alone can see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.instruments.ati_cal import AtiForceTorque
from bench.instruments.protocols import (
    AnalogChannel,
    AngularEncoder,
    Daq,
    EncoderChannel,
    ForceSensor,
    LinearEncoder,
    LinearStage,
    VoltageInput,
)
from bench.profile import ArmRig, IndenterRig, JointRig, RigProfile
from bench.safety.custody import Look
from bench.safety.gate import STANDSTILL_MM
from bench.safety.joint_gate import STANDSTILL_RAD
from bench.safety.safe_state import WATCH_S

#: Samples of a wrist sensor are averaged over this long before they are compared [s]: noise and ringing.
QUIET_BLOCK_S = 0.02


def look_at_indenter(rig: IndenterRig, daq: Daq, sensor: ForceSensor, stage: LinearStage) -> Look:
    """Return how the axis is seen to stand: by its encoder and by its controller."""
    encoder = rig.encoder
    channel = LinearEncoder(encoder.counter, encoder.distance_per_pulse.to("mm"), encoder.decoding, 0.0)

    def moved() -> float:
        first_mm = stage.position_mm()
        by_encoder = _range(_watched(rig, daq, sensor.channels, [channel])[1])
        return max(by_encoder, abs(stage.position_mm() - first_mm))

    return Look("encoder and the controller", moved, STANDSTILL_MM, "mm")


def look_at_joint(rig: JointRig, daq: Daq) -> Look:
    """Return how the joint is seen to stand: by the encoder on its output."""
    encoder, transducer = rig.encoder, rig.torque_transducer
    volts = transducer.voltage_range.to("V")
    analog = [VoltageInput(transducer.channel, -volts, volts, transducer.terminal)]
    channel = AngularEncoder(encoder.counter, encoder.pulses_per_revolution, encoder.decoding, 0.0)
    return Look("encoder", lambda: _range(_watched(rig, daq, analog, [channel])[1]), STANDSTILL_RAD, "rad")


def look_at_arm(rig: ArmRig, daq: Daq, sensor: AtiForceTorque) -> Look:
    """Return how the arm is felt to stand: by the wrist sensor, which feels its tool move."""
    from bench.safety.arm_gate import STANDSTILL_N

    def moved() -> float:
        forces, _ = sensor.convert(_watched(rig, daq, list(sensor.channels), [])[0])
        return unrest(forces, rig.daq.sample_rate.to("Hz"))

    return Look("wrist sensor", moved, STANDSTILL_N, "N")


def unrest(forces: NDArray[np.float64], rate_hz: float) -> float:
    """Return by how much the force changes over a stretch of samples (k, 3) [N], short ringing averaged."""
    size = max(1, round(QUIET_BLOCK_S * rate_hz))
    means = np.array([part.mean(axis=0) for part in np.array_split(forces, max(1, len(forces) // size))])
    return float(np.ptp(means, axis=0).max())


def _watched(
    rig: RigProfile, daq: Daq, analog: Sequence[AnalogChannel], encoders: Sequence[EncoderChannel]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the readings of :data:`WATCH_S`: analog (n, k) and encoders (n, m)."""
    rate_hz = rig.daq.sample_rate.to("Hz")
    acquisition = daq.acquisition(list(analog), list(encoders), rate_hz, rig.daq.buffer.to("s"))
    try:
        acquisition.start()
        block = acquisition.read(max(2, round(WATCH_S * rate_hz)), timeout_s=WATCH_S + 2.0)
    finally:
        acquisition.close()
    return block.analog, block.encoders


def _range(encoders: NDArray[np.float64]) -> float:
    return float(np.ptp(encoders[:, 0]))
