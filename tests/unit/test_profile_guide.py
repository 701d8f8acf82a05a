"""The guide to profiles names every key, default, choice, model, fault and folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from bench.profile import (
    FAULTS,
    ApproachTouchProcedure,
    ArmAnalysisProfile,
    ArmContactProcedure,
    ArmCriteria,
    ArmCriterion,
    ArmExcitationProcedure,
    ArmPhantom,
    ArmProcedure,
    ArmProfile,
    ArmRig,
    ArmTrackingProcedure,
    ArmTwin,
    ContactCriteria,
    ContactSpecimen,
    FeedForwardProfile,
    FourierExcitationProcedure,
    FrameStiffnessProcedure,
    FrictionSweepProcedure,
    ImpedanceStepProcedure,
    IndentationProcedure,
    IndenterRig,
    IndenterTwin,
    JointAnalysisProfile,
    JointCriteria,
    JointCriterion,
    JointLoad,
    JointProcedure,
    JointRig,
    JointTwin,
    LowSpeedTrackingProcedure,
    OutputLock,
    Payload,
    PayloadHoldProcedure,
    ProcedureProfile,
    RigProfile,
    SpecimenProfile,
    StiffnessRampProcedure,
    TrajectoryJoint,
    TrajectoryProfile,
    TwinProfile,
    WrenchCheckProcedure,
    arm,
    feedforward,
    feedforward_arm,
    fields,
    rig,
    rig_arm,
    rig_joint,
    trajectory,
    twin,
    twin_arm,
    twin_joint,
)
from bench.profile.check import FOLDER_OF
from bench.profile.criteria import AnalysisProfile, CriteriaProfile, Criterion, CriterionBase
from bench.profile.criteria_arm import ARM_METRICS, ARM_SEGMENTS
from bench.profile.criteria_joint import JOINT_METRICS, JUDGES, SEGMENTS
from bench.profile.fields import Section
from bench.profile.load import SCHEMAS
from bench.profile.prompt import Prompt
from bench.profile.specimen import ExpectedForce, IndenterGeometry

GUIDE: dict[str, dict[str, type[Section]]] = {
    "profiles.md": {
        "rig": IndenterRig,
        "stage": rig.StageProfile,
        "daq": rig.DaqProfile,
        "force_sensor, driver ati_cal": rig.AtiSensorProfile,
        "force_sensor, driver load_cell": rig.LoadCellProfile,
        "encoder": rig.EncoderProfile,
        "safety": rig.SafetyProfile,
        "frame": rig.FrameProfile,
        "calibrations": rig.CalibrationProfile,
        "prompts": Prompt,
        "specimen": ContactSpecimen,
        "indenter": IndenterGeometry,
        "expected": ExpectedForce,
        "indentation": IndentationProcedure,
        "frame_stiffness": FrameStiffnessProcedure,
        "criteria file": ContactCriteria,
        "analysis": AnalysisProfile,
        "criteria": Criterion,
    },
    "profiles-joint.md": {
        "rig": JointRig,
        "drive": rig_joint.JointDriveProfile,
        "torque_transducer": rig_joint.TorqueTransducerProfile,
        "encoder": rig_joint.JointEncoderProfile,
        "joint": rig_joint.JointProfile,
        "loop": rig_joint.LoopProfile,
        "safety": rig_joint.JointSafetyProfile,
        "joint_load": JointLoad,
        "output_lock": OutputLock,
        "every procedure": JointProcedure,
        "friction_sweep": FrictionSweepProcedure,
        "stiffness_ramp": StiffnessRampProcedure,
        "fourier_excitation": FourierExcitationProcedure,
        "low_speed_tracking": LowSpeedTrackingProcedure,
        "impedance_step": ImpedanceStepProcedure,
        "criteria file": JointCriteria,
        "analysis": JointAnalysisProfile,
        "criteria": JointCriterion,
    },
    "profiles-arm.md": {
        "rig": ArmRig,
        "arm": arm.ArmMechanics,
        "arm.joints": arm.ArmJointProfile,
        "link": arm.BodyProfile,
        "bus": rig_arm.ArmBusProfile,
        "servos": rig_arm.ServoProfile,
        "wrist_sensor": rig_arm.WristSensorProfile,
        "tool": rig_arm.ToolProfile,
        "workspace": rig_arm.WorkspaceProfile,
        "loop": rig_arm.ArmLoopProfile,
        "safety": rig_arm.ArmSafetyProfile,
        "arm file": ArmProfile,
        "trajectory file": TrajectoryProfile,
        "workspace of a trajectory": trajectory.TrajectoryWorkspace,
        "joints of a trajectory": TrajectoryJoint,
        "payload": Payload,
        "arm_phantom": ArmPhantom,
        "every procedure": ArmProcedure,
        "arm_excitation": ArmExcitationProcedure,
        "payload_hold": PayloadHoldProcedure,
        "arm_tracking": ArmTrackingProcedure,
        "every procedure that touches": ArmContactProcedure,
        "wrench_check": WrenchCheckProcedure,
        "approach_touch": ApproachTouchProcedure,
        "criteria file": ArmCriteria,
        "analysis": ArmAnalysisProfile,
        "criteria": ArmCriterion,
    },
    "feedforward.md": {
        "feed-forward file": FeedForwardProfile,
        "friction": feedforward.FrictionFeedForward,
        "drive": feedforward.DriveFeedForward,
        "dynamics": feedforward.DynamicsFeedForward,
        "transmission": feedforward.TransmissionFeedForward,
        "validity": feedforward.Validity,
        "sources": feedforward.SourceArchive,
        "feed-forward file of an arm": feedforward_arm.ArmFeedForward,
        "payload": feedforward_arm.ArmPayloadFeedForward,
        "validity of an arm": feedforward_arm.ArmValidity,
        "joints": feedforward_arm.ArmJointFeedForward,
        "joints.friction": feedforward_arm.ArmFriction,
        "joints.validity": feedforward_arm.ArmJointValidity,
    },
    "profiles-twins.md": {
        "indenter twin": IndenterTwin,
        "stage": twin.StageTruth,
        "frame": twin.FrameTruth,
        "encoder of an indenter": twin.EncoderTruth,
        "force_sensor": twin.SensorTruth,
        "specimens.NAME of an indenter": twin.TissueTruth,
        "prony": twin.PronyTerm,
        "joint twin": JointTwin,
        "motor": twin_joint.MotorTruth,
        "gear": twin_joint.GearTruth,
        "friction": twin_joint.FrictionTruth,
        "encoder of a joint": twin_joint.JointEncoderTruth,
        "torque_transducer": twin_joint.TransducerTruth,
        "specimens.NAME of a joint": twin_joint.LoadTruth,
        "arm twin": ArmTwin,
        "axes": twin_arm.AxisTruth,
        "servos of an arm": twin_arm.ServoTruth,
        "links": twin_arm.LinksTruth,
        "wrist_sensor of an arm twin": twin_arm.WristSensorTruth,
        "specimens.NAME of an arm": twin_arm.ArmSpecimenTruth,
        "surface": twin_arm.SurfaceTruth,
        "daq": twin.DaqTruth,
        "faults": twin.Fault,
    },
}
FAULT_TABLE, METRIC_TABLE = "Faults of the twin", "metrics"
FURTHER = {"profiles-twins.md": {FAULT_TABLE}, "profiles-joint.md": {METRIC_TABLE}, "profiles-arm.md": {METRIC_TABLE}}
#: Models no file is read as; their keys stand with the models that are made from them.
BASES = {
    fields.Profile,
    RigProfile,
    SpecimenProfile,
    ProcedureProfile,
    CriteriaProfile,
    CriterionBase,
    TwinProfile,
}
#: What several procedures have in common.
SHARED = (JointProcedure, ArmProcedure, ArmContactProcedure)
#: Document → heading → key → the other columns of its row.
Written = dict[str, dict[str, dict[str, list[str]]]]
TABLES = [(document, heading, model) for document, tables in GUIDE.items() for heading, model in tables.items()]


@pytest.fixture(scope="module")
def guide(repository: Path) -> dict[str, str]:
    return {document: (repository / "docs" / document).read_text(encoding="utf-8") for document in GUIDE}


@pytest.fixture(scope="module")
def written(guide: dict[str, str]) -> Written:
    return {document: sections(text) for document, text in guide.items()}


def sections(guide: str) -> dict[str, dict[str, list[str]]]:
    """Heading → key → the other columns of its row."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in re.split(r"^### ", guide, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        body = re.split(r"^## ", body, flags=re.MULTILINE)[0]
        rows = [re.split(r" *\| *", line.strip("| ")) for line in body.splitlines() if line.startswith("| `")]
        found[heading.strip()] = {row[0].strip("`"): row[1:] for row in rows}
    return found


def keys(model: type[Section]) -> dict[str, FieldInfo]:
    """Key → field; those that procedures share stand in tables of their own."""
    shared = {
        name for base in SHARED if issubclass(model, base) and model is not base for name in base.model_fields
    } - {"procedure"}
    return {info.alias or name: info for name, info in model.model_fields.items() if name not in shared}


@pytest.mark.parametrize(("document", "heading", "model"), TABLES)
def test_the_guide_names_every_key_with_its_default(
    written: Written, document: str, heading: str, model: type[Section]
) -> None:
    table = written[document][heading]
    assert list(table) == list(keys(model))
    for key, info in keys(model).items():
        default = table[key][1]
        assert (default == "required") == info.is_required(), key
        stated = re.fullmatch(r"`([^`]*)`", default)
        if stated:
            assert stated.group(1) == str(info.default).lower() or stated.group(1) == str(info.default)
        assert table[key][2], f"{key} has no meaning"


@pytest.mark.parametrize(("document", "heading", "model"), TABLES)
def test_the_guide_names_every_choice(written: Written, document: str, heading: str, model: type[Section]) -> None:
    for key, info in keys(model).items():
        if get_origin(info.annotation) is Literal:
            choices = " / ".join(f"`{choice}`" for choice in get_args(info.annotation))
            assert written[document][heading][key][0] == choices


def test_the_guide_has_a_table_for_every_model_and_no_other(
    written: Written,
) -> None:
    models = {model for model in _subclasses(Section) if model.__module__.startswith("bench.profile")}
    assert models - {model for _, _, model in TABLES} == BASES
    for document, tables in GUIDE.items():
        assert set(written[document]) == {*tables, *FURTHER.get(document, ())}


def test_the_guide_names_every_fault_with_its_parameters(
    written: Written,
) -> None:
    table = written["profiles-twins.md"][FAULT_TABLE]
    assert list(table) == list(FAULTS)
    for fault, parameters in FAULTS.items():
        assert all(f"`{name}`" in table[fault][0] for name in parameters), fault


def test_the_guide_names_every_folder_and_every_schema(guide: dict[str, str]) -> None:
    assert all(f"`profiles/{folder}/`" in guide["profiles.md"] for folder in FOLDER_OF.values())
    assert all(any(f"`{schema}`" in text for text in guide.values()) for schema in SCHEMAS)


def test_the_guide_names_every_metric_of_a_joint_with_its_kind_and_where_it_is_found(written: Written) -> None:
    table = written["profiles-joint.md"][METRIC_TABLE]
    found = {metric: " / ".join(f"`{phase}`" for phase in SEGMENTS[JUDGES[metric]]) for metric in JOINT_METRICS}
    assert {metric: row[:2] for metric, row in table.items()} == {
        metric: [kind, found[metric]] for metric, kind in JOINT_METRICS.items()
    }


def test_the_guide_names_every_metric_of_an_arm_with_its_kind_and_where_it_is_found(written: Written) -> None:
    table = written["profiles-arm.md"][METRIC_TABLE]
    found = {metric: " / ".join(f"`{phase}`" for phase in phases) for metric, phases in ARM_SEGMENTS.items()}
    assert {metric: row[:2] for metric, row in table.items()} == {
        metric: [kind, found[metric]] for metric, kind in ARM_METRICS.items()
    }


def _subclasses(model: type[Section]) -> set[type[Section]]:
    return {found for child in model.__subclasses__() for found in {child, *_subclasses(child)}}
