"""The arm's subcommands of ``bench``: ``preflight`` and ``design``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import LimitError, ProfileError

if TYPE_CHECKING:
    from bench.identify.excitation import Excitation
    from bench.profile import ArmRig, ProcedureProfile, SpecimenProfile

OK, NO = 0, 1
#: What an arm carries unless told otherwise.
BARE = "bare_tool"
BASE_FREQUENCY, HARMONICS, PERIODS = "0.0625 Hz", 8, 1
Say = Callable[[str], None]


def add_arm_commands(commands: Any, say: Say) -> None:
    """Add the subcommands to those of ``bench``; ``say`` prints a line."""
    preflight = commands.add_parser(
        "preflight",
        help="check the whole path of a procedure on an arm before anything moves",
        description="Check joints, speeds, torques with safety factors, contact force, deflection, singular poses and "
        "the workspace box over the whole path. Exit code 1 when the path is refused.",
    )
    _add_rig_and_procedure(preflight)
    preflight.add_argument("--picture", metavar="FILE.svg", type=Path, help="write a picture of the check")
    preflight.set_defaults(run=lambda options: _answered(_preflight, options, say))

    design = commands.add_parser(
        "design",
        help="design the excitation of an arm and write it as a trajectory file",
        description="Design a Fourier series inside every limit of the rig, well conditioned for identification. The "
        "same seed and evaluations give the same series.",
    )
    _add_rig_and_procedure(design)
    design.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="trajectory file to write (default: print it)"
    )
    design.add_argument("--seed", type=int, default=1, metavar="N")
    design.add_argument("--name", metavar="NAME", help="of the trajectory (default: the file's name)")
    design.add_argument("--base-frequency", default=BASE_FREQUENCY, metavar="F", help=f"default: {BASE_FREQUENCY}")
    design.add_argument("--harmonics", type=int, default=HARMONICS, metavar="K", help=f"default: {HARMONICS}")
    design.add_argument("--periods", type=int, default=PERIODS, metavar="K", help=f"default: {PERIODS}")
    design.add_argument("--evaluations", type=int, metavar="K", help="series looked at (default: 2000)")
    design.add_argument(
        "--not-like", metavar="TRAJECTORY", help="refuse a repeat of this trajectory: the design is its hold-out"
    )
    design.set_defaults(run=lambda options: _answered(_design, options, say))


def _add_rig_and_procedure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rig", metavar="RIG", help="rig: a name in profiles/rigs/ or a path")
    parser.add_argument("procedure", metavar="PROCEDURE", help="procedure: a name in profiles/procedures/ or a path")
    parser.add_argument("--specimen", default=BARE, metavar="NAME", help=f"what is mounted (default: {BARE})")


def _loaded(options: argparse.Namespace) -> tuple[ArmRig, ProcedureProfile, SpecimenProfile]:
    from bench.profile import ArmRig, find_profile, load_procedure, load_rig, load_specimen

    rig = load_rig(find_profile("rigs", options.rig))
    if not isinstance(rig, ArmRig):
        raise ProfileError(
            f'the rig "{rig.name}" is of kind "{rig.kind}": it has no path to check',
            where=str(rig.source.path),
            remedy='Choose a rig of kind "arm"',
        )
    procedure = load_procedure(find_profile("procedures", options.procedure))
    return rig, procedure, load_specimen(find_profile("specimens", options.specimen))


def _answered(job: Callable[[argparse.Namespace, Say], int], options: argparse.Namespace, say: Say) -> int:
    """Run ``job``; a limit that is not kept is an answer, and it is no."""
    try:
        return job(options, say)
    except LimitError as error:
        say(f"REFUSED: {error}")
        return NO


def _preflight(options: argparse.Namespace, say: Say) -> int:
    from bench.procedures.arm_preflight import preflight
    from bench.report.preflight import preflight_svg

    report = preflight(*_loaded(options))
    for line in report.lines():
        say(line)
    if options.picture is not None:
        options.picture.write_text(preflight_svg(report), encoding="utf-8")
        say(f"picture: {options.picture}")
    return OK if report.ok else NO


def _design(options: argparse.Namespace, say: Say) -> int:
    from bench.trajectory import trajectory_text

    rig, procedure, specimen = _loaded(options)
    found = _designed(options, rig, specimen)
    name = options.name or (options.output.stem if options.output else f"{procedure.name}_{options.seed}")
    text = trajectory_text(
        found,
        name=name,
        arm=rig.name,
        specimen=specimen.name,
        description=f"Excitation of {rig.name} carrying {specimen.name}, for {procedure.name}",
        kinds=[joint.kind for joint in rig.arm.joints],
    )
    if options.output is None:
        say(text)
        return OK
    options.output.write_text(text, encoding="utf-8")
    tightest = found.tightest
    say(f"{options.output}: condition number {found.condition_number:.2f} of {found.columns} columns")
    say(f"  {found.path.duration_s:g} s, seed {found.seed}, {found.evaluations} series looked at")
    say(f"  tightest: {tightest.check} of {tightest.joint}, {100.0 * tightest.share:.1f} % left, at {tightest.pose}")
    return OK


def _designed(options: argparse.Namespace, rig: ArmRig, specimen: SpecimenProfile) -> Excitation:
    from bench.arm import arm_model
    from bench.arm_limits import motion_limits
    from bench.identify.excitation import EVALUATIONS, design, refuse_repeat
    from bench.identify.excitation_cost import BaseColumns
    from bench.profile import find_profile, load_trajectory
    from bench.trajectory import fourier_path
    from bench.units import Value

    model = arm_model(rig, specimen)
    found = design(
        model,
        motion_limits(rig).narrowed(),
        BaseColumns.of(model),
        base_hz=Value.parse(options.base_frequency, "frequency", where="--base-frequency").to("Hz"),
        harmonics=options.harmonics,
        periods=options.periods,
        seed=options.seed,
        evaluations=options.evaluations or EVALUATIONS,
    )
    if options.not_like:
        first = load_trajectory(find_profile("trajectories", options.not_like))
        refuse_repeat(fourier_path(first), found.path, found.limits.names)
    return found
