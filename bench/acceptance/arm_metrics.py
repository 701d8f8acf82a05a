"""The metrics a criterion of an arm may name, in one small table.

A new metric is one function, one line here, and its kind, procedure and phases in :mod:`bench.profile.criteria_arm`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.acceptance.arm_contact import wrench_error, wrench_force_error
from bench.acceptance.arm_evidence import ArmEvidence
from bench.acceptance.arm_hold_out import (
    excitation_condition_number,
    hold_out_against_baseline,
    hold_out_relative_error,
    hold_out_rms,
    physical_consistency_cost,
)
from bench.acceptance.arm_statics import hold_torque_residual, payload_mass_error, residual_torque
from bench.acceptance.arm_touch import force_overshoot, force_rise_time, force_settling_time, switch_benefit
from bench.acceptance.arm_values import Values
from bench.profile import ArmCriterion


@dataclass(frozen=True)
class ArmMetric:
    """A metric and the unit its values are in."""

    function: Callable[[ArmEvidence, ArmCriterion], Values]
    base_unit: str


ARM_METRICS: dict[str, ArmMetric] = {
    "hold_out_relative_error": ArmMetric(hold_out_relative_error, "1"),
    "hold_out_rms": ArmMetric(hold_out_rms, "1"),
    "hold_out_against_baseline": ArmMetric(hold_out_against_baseline, "1"),
    "excitation_condition_number": ArmMetric(excitation_condition_number, "1"),
    "physical_consistency_cost": ArmMetric(physical_consistency_cost, "1"),
    "payload_mass_error": ArmMetric(payload_mass_error, "1"),
    "hold_torque_residual": ArmMetric(hold_torque_residual, "N.m"),
    "residual_torque": ArmMetric(residual_torque, "N.m"),
    "wrench_error": ArmMetric(wrench_error, "1"),
    "wrench_force_error": ArmMetric(wrench_force_error, "N"),
    "force_rise_time": ArmMetric(force_rise_time, "s"),
    "force_overshoot": ArmMetric(force_overshoot, "1"),
    "force_settling_time": ArmMetric(force_settling_time, "s"),
    "switch_benefit": ArmMetric(switch_benefit, "1"),
}
