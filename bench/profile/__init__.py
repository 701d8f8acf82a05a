"""Profiles: what a lab writes down about its rig, specimens, procedures, criteria and (for the twin) the truth.

>>> from bench.profile import find_profile, load_rig
>>> rig = load_rig(find_profile("rigs", "indenter"))
>>> rig.safety.force_limit.to("N")
20.0
"""

from bench.profile.arm import ArmJointProfile, ArmMechanics, ArmProfile, BodyProfile
from bench.profile.check import check_folder
from bench.profile.criteria import AnalysisProfile, ContactCriteria, CriteriaProfile, Criterion, CriterionBase
from bench.profile.criteria_arm import ArmAnalysisProfile, ArmCriteria, ArmCriterion
from bench.profile.criteria_joint import JointAnalysisProfile, JointCriteria, JointCriterion
from bench.profile.faults import FAULTS, befalls, fault_parameter_issues, parse_fault, stated_fault
from bench.profile.feedforward import FeedForwardProfile
from bench.profile.feedforward_arm import ArmFeedForward
from bench.profile.fields import Source
from bench.profile.find import find_profile, profiles_root
from bench.profile.load import (
    load_arm,
    load_arm_feedforward,
    load_criteria,
    load_feedforward,
    load_procedure,
    load_profile,
    load_rig,
    load_specimen,
    load_trajectory,
    load_twin,
    parse_profile,
)
from bench.profile.problem import Issue, Problem
from bench.profile.procedure import FrameStiffnessProcedure, IndentationProcedure, ProcedureProfile
from bench.profile.procedure_arm import (
    ApproachTouchProcedure,
    ArmContactProcedure,
    ArmExcitationProcedure,
    ArmProcedure,
    ArmTrackingProcedure,
    PayloadHoldProcedure,
    WrenchCheckProcedure,
)
from bench.profile.procedure_joint import (
    FourierExcitationProcedure,
    FrictionSweepProcedure,
    ImpedanceStepProcedure,
    JointProcedure,
    LowSpeedTrackingProcedure,
    StiffnessRampProcedure,
)
from bench.profile.rig import (
    AtiSensorProfile,
    CalibrationProfile,
    DaqProfile,
    EncoderProfile,
    FrameProfile,
    IndenterRig,
    LoadCellProfile,
    RigProfile,
    SafetyProfile,
    StageProfile,
)
from bench.profile.rig_arm import ArmRig, WristSensorProfile
from bench.profile.rig_joint import JointRig
from bench.profile.specimen import (
    ArmPhantom,
    ContactSpecimen,
    ExpectedForce,
    JointLoad,
    OutputLock,
    Payload,
    SpecimenProfile,
)
from bench.profile.trajectory import TrajectoryJoint, TrajectoryProfile
from bench.profile.twin import Fault, IndenterTwin, TissueTruth, TwinProfile
from bench.profile.twin_arm import ArmTwin
from bench.profile.twin_joint import JointTwin

__all__ = [
    "FAULTS",
    "AnalysisProfile",
    "ApproachTouchProcedure",
    "ArmAnalysisProfile",
    "ArmContactProcedure",
    "ArmCriteria",
    "ArmCriterion",
    "ArmExcitationProcedure",
    "ArmFeedForward",
    "ArmJointProfile",
    "ArmMechanics",
    "ArmPhantom",
    "ArmProcedure",
    "ArmProfile",
    "ArmRig",
    "ArmTrackingProcedure",
    "ArmTwin",
    "AtiSensorProfile",
    "BodyProfile",
    "CalibrationProfile",
    "ContactCriteria",
    "ContactSpecimen",
    "CriteriaProfile",
    "Criterion",
    "CriterionBase",
    "DaqProfile",
    "EncoderProfile",
    "ExpectedForce",
    "Fault",
    "FeedForwardProfile",
    "FourierExcitationProcedure",
    "FrameProfile",
    "FrameStiffnessProcedure",
    "FrictionSweepProcedure",
    "ImpedanceStepProcedure",
    "IndentationProcedure",
    "IndenterRig",
    "IndenterTwin",
    "Issue",
    "JointAnalysisProfile",
    "JointCriteria",
    "JointCriterion",
    "JointLoad",
    "JointProcedure",
    "JointRig",
    "JointTwin",
    "LoadCellProfile",
    "LowSpeedTrackingProcedure",
    "OutputLock",
    "Payload",
    "PayloadHoldProcedure",
    "Problem",
    "ProcedureProfile",
    "RigProfile",
    "SafetyProfile",
    "Source",
    "SpecimenProfile",
    "StageProfile",
    "StiffnessRampProcedure",
    "TissueTruth",
    "TrajectoryJoint",
    "TrajectoryProfile",
    "TwinProfile",
    "WrenchCheckProcedure",
    "WristSensorProfile",
    "befalls",
    "check_folder",
    "fault_parameter_issues",
    "find_profile",
    "load_arm",
    "load_arm_feedforward",
    "load_criteria",
    "load_feedforward",
    "load_procedure",
    "load_profile",
    "load_rig",
    "load_specimen",
    "load_trajectory",
    "load_twin",
    "parse_fault",
    "parse_profile",
    "profiles_root",
    "stated_fault",
]
