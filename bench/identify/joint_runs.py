"""What the joint's identifications take from an archived run, read phase by phase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.alignment import Alignment
from bench.identify.joint_record import RIG_TEXT, JointRecord, RunLike, alignment_of, pieces
from bench.identify.lugre_path import PreSliding, resolution_of
from bench.identify.ramp import Ramp
from bench.identify.sweep import RIPPLE_ORDERS, Segment, SegmentAccumulator

Floats = NDArray[np.float64]

SHARE_OF_CAPACITY = 1e-3
"""What the tare of a transducer is good for: an arm that hangs still is held by friction, not by nothing."""
PIECE_S = 15.0
STILL_RAD = 2e-4
SAME_CLOCK = Alignment(0.0, 5e-4, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0)
"""The archive's own times, good to half a transaction: at 4 N.m/s that is 2 mN.m."""
DRIVES = ("drive", "moteus")
"""Names by which a run's instruments tell the drive: its role, or its make."""
LEAST_PUSH = 0.5
"""Pushes smaller than this share of the largest only load the gear."""


@dataclass(frozen=True)
class Origin:
    """Which archive an identification came from."""

    file: str
    procedure: str
    digest: str
    simulated: bool
    rig: str
    load: str
    drive_serial_number: str | None
    recorded_utc: str


def origin_of(run: Any) -> Origin:
    """Say where a run came from."""
    told = run.provenance
    serial = next((one["serial_number"] for one in told.get("instruments", ()) if one.get("name") in DRIVES), None)
    return Origin(
        run.path.name, run.name, run.digest, run.simulated, str(told["rig"]), str(told["specimen"]), serial or None,
        run.ended_utc or run.started_utc,
    )  # fmt: skip


def transducer_uncertainty(run: RunLike) -> tuple[float, float]:
    """Standard uncertainties of the torque transducer of a run's rig: gain [1], zero [N.m].

    The gain's from the certificate: a share as it stands, a torque over the end of its range. The zero's is a
    thousandth of the capacity.
    """
    from bench.profile import parse_profile

    rig: Any = parse_profile(run.texts[RIG_TEXT], run.path)[0] if RIG_TEXT in run.texts else None
    if rig is None or not hasattr(rig, "torque_transducer"):
        return 0.0, 0.0
    zero = SHARE_OF_CAPACITY * rig.torque_transducer.capacity.to("N.m")
    for one in rig.calibrations:
        if one.instrument == "torque_transducer":
            stated = one.expanded_uncertainty
            share = stated.to("1") if stated.unit == "%" else stated.to("N.m") / abs(one.range_max.to("N.m"))
            return share / one.coverage_factor, zero
    return 0.0, zero


def sweep_segments(
    run: RunLike, *, alignment: Alignment | None = None, orders: tuple[int, ...] = RIPPLE_ORDERS
) -> list[Segment]:
    """Condense the ``sweep`` phases of a run one after another; memory does not grow with the run.

    Raises
    ------
    Refused
        ``no_phase``, ``no_speed``, and what reading and aligning raise.
    """
    found: list[Segment] = []
    known = alignment or _aligned(run)
    stretches = groupby(pieces(run, ("sweep",), alignment=known, longest_s=PIECE_S, overlap_s=0.0), _phase_of)
    for phase, records in stretches:
        stretch: SegmentAccumulator | None = None
        for one in records:
            if stretch is None:
                speed = float(phase.angular_speed_rad_s)
                stretch = SegmentAccumulator(speed, one.rate_hz, gear_ratio=one.gear_ratio, orders=orders)
            stretch.feed(one.motor_torque_command, one.joint_torque, one.motor_angle, one.temperature)
        if stretch is not None:
            found.append(stretch.finish())
    return found


def _phase_of(record: JointRecord) -> Any:
    return record.phases[0]


def _aligned(run: RunLike) -> Alignment:
    """Clocks by all phases of the run; the archive's own times where the motion does not tell them apart.

    At constant speed, and in slow pushes, half a millisecond is nothing; a wrong ratio or direction is still refused.
    """
    try:
        return alignment_of(run)
    except Refused as error:
        if error.reason in ("hardly_moves", "too_short"):
            return SAME_CLOCK
        raise


def breakaway_stretches(run: RunLike, *, alignment: Alignment | None = None) -> tuple[list[PreSliding], float]:
    """Read the ``breakaway`` phases of a run; return them and what the rotor's angle is rounded to [rad].

    Pushes far below the largest are left out: they show a spring, not its bending.
    """
    known = alignment or _aligned(run)
    records = list(pieces(run, ("breakaway",), alignment=known, longest_s=math.inf))
    sizes = [float(np.abs(one.motor_torque_command).max()) for one in records]
    strong = [one for one, size in zip(records, sizes, strict=True) if size >= LEAST_PUSH * max(sizes)]
    step = max(_raw_resolution(run, one) for one in strong)
    return [_pre_sliding(one) for one in strong], step


def _pre_sliding(record: JointRecord) -> PreSliding:
    known = bool(np.all(np.isfinite(record.temperature)))
    return PreSliding(
        record.rate_hz, record.motor_torque_command, record.joint_torque, record.motor_angle,
        record.temperature if known else None,
    )  # fmt: skip


def _raw_resolution(run: RunLike, record: JointRecord) -> float:
    """What the drive's own rows are rounded to; on the DAQ's grid they no longer show it."""
    rows = run.channel_slice("motor_angle", float(record.time_s[0]), float(record.time_s[-1]), unit="rad", kind="angle")
    return resolution_of(np.asarray(rows.values) / record.gear_ratio)


def ramp_stretches(run: RunLike, *, alignment: Alignment | None = None) -> tuple[list[Ramp], float]:
    """Read the ``ramp`` phases of a run; return them and what the rotor's angle is rounded to [rad].

    Replicates that follow each other are one stretch. The locked joint's own angle is a straight line over the torque
    (the lock's compliance), which keeps the joint encoder's noise out of the deflection. A joint that does not turn
    cannot align the clocks; without ``alignment`` the archive's own times are taken.

    Raises
    ------
    Refused
        ``output_moved``: the joint's angle does not follow the torque as a lock's would.
    """
    records = list(pieces(run, ("ramp",), alignment=alignment or SAME_CLOCK, longest_s=math.inf))
    step = max(_raw_resolution(run, one) for one in records)
    return [_ramp(joined, str(run.path)) for joined in _adjoining(records)], step


def _adjoining(records: Sequence[JointRecord]) -> list[list[JointRecord]]:
    found: list[list[JointRecord]] = []
    for one in records:
        before = found[-1][-1] if found else None
        if before is not None and one.first_index - (before.first_index + len(before.time_s)) in (-1, 0, 1, 2):
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _ramp(records: list[JointRecord], where: str) -> Ramp:
    torque = np.concatenate([one.joint_torque for one in records])
    joint = np.concatenate([one.joint_angle for one in records])
    motor = np.concatenate([one.motor_angle for one in records])
    command = np.concatenate([one.motor_torque_command for one in records])
    columns = np.stack([np.ones(len(torque)), torque], axis=1)
    line = columns @ np.linalg.lstsq(columns, joint, rcond=None)[0]
    left = float(np.sqrt(np.mean((joint - line) ** 2)))
    if left > STILL_RAD:
        raise Refused(
            f"the locked output moved: its angle is {left:.2g} rad off a straight line over the torque",
            reason="output_moved",
            where=where,
            remedy="Tighten the lock and repeat; look for slip between flange and encoder",
        )
    return Ramp(records[0].rate_hz, torque, motor - line, command)
