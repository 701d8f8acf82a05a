"""Profiles: what a lab writes down about its rig, specimens, procedures, criteria and (for the twin) the truth.

>>> from bench.profile import find_profile, load_rig
>>> rig = load_rig(find_profile("rigs", "indenter"))
>>> rig.safety.force_limit.to("N")
20.0
"""

from bench.profile.check import check_folder
from bench.profile.criteria import AnalysisProfile, CriteriaProfile, Criterion
from bench.profile.fields import Source
from bench.profile.find import find_profile, profiles_root
from bench.profile.load import (
    load_criteria,
    load_procedure,
    load_profile,
    load_rig,
    load_specimen,
    load_twin,
    parse_profile,
)
from bench.profile.problem import Issue, Problem
from bench.profile.procedure import FrameStiffnessProcedure, IndentationProcedure, ProcedureProfile
from bench.profile.rig import (
    AtiSensorProfile,
    CalibrationProfile,
    DaqProfile,
    EncoderProfile,
    FrameProfile,
    LoadCellProfile,
    RigProfile,
    SafetyProfile,
    StageProfile,
)
from bench.profile.specimen import ExpectedForce, SpecimenProfile
from bench.profile.twin import FAULTS, Fault, TissueTruth, TwinProfile, fault_parameter_issues

__all__ = [
    "FAULTS",
    "AnalysisProfile",
    "AtiSensorProfile",
    "CalibrationProfile",
    "CriteriaProfile",
    "Criterion",
    "DaqProfile",
    "EncoderProfile",
    "ExpectedForce",
    "Fault",
    "FrameProfile",
    "FrameStiffnessProcedure",
    "IndentationProcedure",
    "Issue",
    "LoadCellProfile",
    "Problem",
    "ProcedureProfile",
    "RigProfile",
    "SafetyProfile",
    "Source",
    "SpecimenProfile",
    "StageProfile",
    "TissueTruth",
    "TwinProfile",
    "check_folder",
    "fault_parameter_issues",
    "find_profile",
    "load_criteria",
    "load_procedure",
    "load_profile",
    "load_rig",
    "load_specimen",
    "load_twin",
    "parse_profile",
    "profiles_root",
]
