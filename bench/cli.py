"""The command ``bench``: one subcommand per job, thin; the work is done in the rooms it imports when needed.

Exit codes: 0 all is well; 1 the answer is no (profiles with problems, a verdict that is not PASS); 2 there is no
answer (bad usage, a file that is missing or damaged, a verdict ERROR).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import bench
from bench.errors import BenchError, ProfileError

if TYPE_CHECKING:
    from bench.acceptance import Verdict
    from bench.archive import Run
    from bench.profile import CriteriaProfile

OK, NO, UNANSWERED = 0, 1, 2
_ARCHIVED = "acceptance/"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``bench`` with ``arguments`` (the command line's unless given) and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["twin"]:
        # The twin's process reads its own options, --help too; it is also started without this command.
        return _guarded(lambda: _twin(given[1:]))
    options = _parser().parse_args(given)
    return _guarded(lambda: options.run(options))


def _guarded(job: Callable[[], int]) -> int:
    """Run ``job``; an error of the bench's own becomes what, where and remedy on stderr, without a traceback."""
    try:
        return job()
    except ProfileError as error:
        _say(str(error), sys.stderr)
    except BenchError as error:
        _say(f"error: {error.what}", sys.stderr)
        if error.where:
            _say(f"where: {error.where}", sys.stderr)
        if error.remedy:
            _say(f"remedy: {error.remedy}", sys.stderr)
    except OSError as error:
        _say(f"error: {error.strerror or error}", sys.stderr)
        if error.filename:
            _say(f"where: {error.filename}", sys.stderr)
    except KeyboardInterrupt:
        _say("stopped", sys.stderr)
    return UNANSWERED


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print ``text``, with what the stream's encoding lacks replaced."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), file=stream)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Test bench for the force control of medical robots.",
        epilog="Exit codes: 0 all is well, 1 the answer is no (problems, a verdict that is not PASS), 2 no answer.",
    )
    parser.add_argument("--version", action="version", version=f"bench {bench.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    check = commands.add_parser("check", help="check profiles: list every problem of every file")
    check.add_argument("path", nargs="+", type=Path, help="profile (.toml) or folder of profiles")
    check.set_defaults(run=_check)

    commands.add_parser("twin", help="run the simulated lab of a rig as a server; see bench twin --help")

    importer = commands.add_parser("import", help="turn foreign measurements into archives by a mapping file")
    importer.add_argument("mapping", help="import mapping: a name in profiles/imports/ or a path")
    importer.add_argument("file", nargs="+", type=Path, help="CSV, npz, mat or xlsx file")
    importer.add_argument(
        "--results", type=Path, default=Path("results"), help="folder for the archives (default: results/)"
    )
    importer.set_defaults(run=_import)

    judge = commands.add_parser(
        "judge",
        help="judge an archived run; the new record supersedes, the archive stays as it is",
        description="Judge an archived run and write a new verdict record beside it. Without --criteria the text "
        "stored in the archive decides, so that the same run gets the same verdict years later.",
    )
    judge.add_argument("run_file", metavar="RUN.h5", type=Path)
    judge.add_argument("--criteria", metavar="X", help="criteria: a name in profiles/acceptance/ or a path")
    judge.add_argument("--operator", default="", metavar="TEXT", help="who judges; goes into the record")
    judge.set_defaults(run=_judge)

    recover = commands.add_parser("recover", help="bring back a run whose recorder crashed, on a copy")
    recover.add_argument("run_file", metavar="RUN.h5", type=Path)
    recover.add_argument("--output", type=Path, help="where to write the copy (default: beside the original)")
    recover.set_defaults(run=_recover)

    show = commands.add_parser("show", help="summarise a run: provenance, phases, channels, verdicts")
    show.add_argument("run_file", metavar="RUN.h5", type=Path)
    show.set_defaults(run=_show)

    verify = commands.add_parser("verify", help="compare the content of archives with the digest they were sealed with")
    verify.add_argument("run_file", metavar="RUN.h5", nargs="+", type=Path)
    verify.set_defaults(run=_verify)

    from bench.cli_arm import add_arm_commands
    from bench.cli_safety import add_safety_commands

    add_safety_commands(commands, _say)
    add_arm_commands(commands, _say)
    return parser


def _check(options: argparse.Namespace) -> int:
    from bench.profile import check_folder

    problems = [problem for path in options.path for problem in check_folder(path)]
    for problem in problems:
        _say(str(problem))
    files = sum(len(list(path.rglob("*.toml"))) if path.is_dir() else 1 for path in options.path)
    count = {0: "no problem", 1: "1 problem"}.get(len(problems), f"{len(problems)} problems")
    _say(f"{count} in {files} profile{'' if files == 1 else 's'}", sys.stderr if problems else sys.stdout)
    return NO if problems else OK


def _twin(arguments: list[str]) -> int:
    from bench.twin.process import main as twin

    return int(twin(arguments) or OK)


def _import(options: argparse.Namespace) -> int:
    from bench.archive import import_files
    from bench.profile import find_profile

    for path in import_files(find_profile("imports", options.mapping), options.file, options.results):
        _say(str(path))
    return OK


def _judge(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from bench.acceptance import judge_run
    from bench.archive import Run, add_verdict
    from bench.profile import find_profile, load_criteria

    with Run.open(options.run_file) as run:
        if options.criteria:
            criteria = load_criteria(find_profile("acceptance", options.criteria))
            _refuse_other_procedure(run, criteria)
        else:
            criteria = _archived_criteria(run)
        verdict = judge_run(run, criteria)
    record = verdict.to_record()
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    record["judged"] = {"utc": moment, "by": "bench judge", "operator": options.operator}
    written = add_verdict(options.run_file, record)
    _print_verdict(verdict)
    _say(f"verdict: {written}")
    if verdict.outcome == "ERROR":
        return UNANSWERED
    return OK if verdict.outcome == "PASS" else NO


def _archived_criteria(run: Run) -> CriteriaProfile:
    """Return the archived criteria for this procedure: those of the last verdict by some, or the only ones."""
    from bench.profile import CriteriaProfile, parse_profile

    archived = {Path(name).stem: name for name in run.texts if name.startswith(_ARCHIVED)}
    texts = _for_its_procedure(run, archived)
    judged = [str(verdict.record.get("criteria_name")) for verdict in reversed(run.verdicts)]
    name = next((name for name in judged if name in texts), next(iter(texts)) if len(texts) == 1 else None)
    if name is None:
        stored = f"the archive holds {', '.join(sorted(texts))}" if texts else "the archive holds no criteria"
        if archived and not texts:
            stored += f" for a run of {run.provenance['procedure']}, only {', '.join(sorted(archived))}"
        raise BenchError(stored, where=str(run.path), remedy="Say which decide: --criteria NAME or PATH")
    profile, problems = parse_profile(run.texts[texts[name]], Path(f"{run.path}:{texts[name]}"))
    if not isinstance(profile, CriteriaProfile):
        listed = "; ".join(str(problem) for problem in problems)
        raise BenchError(
            f"this bench cannot read the archived criteria: {listed}",
            where=str(run.path),
            remedy="Judge with the bench version the archive names, or by other criteria with --criteria",
        )
    return profile


def _for_its_procedure(run: Run, texts: dict[str, str]) -> dict[str, str]:
    """Return the archived criteria without those that judge another procedure than the archived one."""
    from bench.profile import CriteriaProfile, parse_profile

    performed = _performed(run)
    kept = {}
    for name, stored in texts.items():
        profile, _ = parse_profile(run.texts[stored], Path(f"{run.path}:{stored}"))
        if performed is None or not isinstance(profile, CriteriaProfile) or performed in profile.judges:
            kept[name] = stored
    return kept


def _performed(run: Run) -> str | None:
    """Return the procedure of a run; None of an imported measurement, whose procedure is a name and no more."""
    from bench.profile import ProcedureProfile, parse_profile

    profile, _ = parse_profile(run.texts.get("procedure.toml", ""), Path(f"{run.path}:procedure.toml"))
    return profile.procedure if isinstance(profile, ProcedureProfile) else None


def _refuse_other_procedure(run: Run, criteria: CriteriaProfile) -> None:
    """Refuse criteria made for other runs: their verdict would supersede the one that stands, and say nothing."""
    performed = _performed(run)
    if performed is not None and performed not in criteria.judges:
        raise BenchError(
            f"the criteria {criteria.name} judge {', '.join(sorted(criteria.judges))}; the run is of {performed}",
            where=str(run.path),
            remedy="Name criteria for it, or leave --criteria out; no verdict was written",
        )


def _print_verdict(verdict: Verdict) -> None:
    stamp = " (SIMULATED)" if verdict.simulated else ""
    _say(f"{verdict.criteria_name} {verdict.criteria_version}: {verdict.outcome}{stamp}")
    for row in verdict.rows:
        _say(f"  {row}")
    if not verdict.criteria_archived:
        _say("  these criteria are not among those archived with the run: they were not fixed before it")
    if verdict.explanation and verdict.outcome != "PASS":
        _say(f"  {verdict.explanation}")


def _recover(options: argparse.Namespace) -> int:
    from bench.archive import recover

    _say(str(recover(options.run_file, options.output)))
    return OK


def _show(options: argparse.Namespace) -> int:
    from bench.archive import Run

    with Run.open(options.run_file) as run:
        for line in summary(run):
            _say(line)
    return OK


def _verify(options: argparse.Namespace) -> int:
    from bench.archive import verify_digest

    def one(path: Path) -> int:
        _say(f"{path}: the content is what was sealed, digest {verify_digest(path)}")
        return OK

    return max(_guarded(partial(one, path)) for path in options.run_file)


def summary(run: Run) -> list[str]:
    """Return a run in a screenful: provenance, phases, channels, events, verdicts."""
    provenance = run.provenance
    origin = "SIMULATED" if run.simulated else run.backend
    seed = f", seed {provenance['seed']}" if run.simulated else ""
    versions = provenance["versions"]
    lines = [
        f"{run.path.name}  [{origin}{seed}]",
        f"  status     {run.status}" + (f": {run.reason}" if run.reason else ""),
        f"  started    {run.started_utc}",
        f"  rig        {provenance['rig']}, specimen {provenance['specimen']}, procedure {provenance['procedure']}",
        f"  operator   {provenance['operator']}",
        f"  software   forcebench {versions['forcebench']}{_commit(provenance['git'])}",
        f"  digest     {run.digest}",
    ]
    for instrument in provenance["instruments"]:
        name, model, serial = (instrument.get(key, "?") for key in ("name", "model", "serial_number"))
        lines.append(f"  instrument {name}: {model}" + (f", serial {serial}" if serial else ", serial not stated"))
    lines.append("phases")
    for phase in run.phases:
        span = f"{phase.start_s:9.3f} to {phase.end_s:9.3f} s"
        lines.append(
            f"  {phase.replicate:3d}  {phase.name:12} {span}{_speed(phase.speed_mm_s, phase.angular_speed_rad_s)}"
        )
    lines.append("channels")
    for name in run.channels():
        channel = run.channel(name)
        rate = f", {channel.rate_hz:g} Hz" if channel.rate_hz else ""
        lines.append(f"  {channel.group}/{name}: {channel.unit} ({channel.kind}), {len(channel.values)} samples{rate}")
    lines += [f"event {event.time_s:.3f} s {event.severity} {event.code}: {event.message}" for event in run.events]
    verdicts = run.verdicts
    for verdict in verdicts:
        standing = "stands" if verdict is verdicts[-1] else "superseded"
        record = verdict.record
        lines.append(
            f"verdict {verdict.number} ({standing}): {record.get('criteria_name')} {record.get('criteria_version')} "
            f"{record.get('outcome')}, {verdict.path.name}"
        )
    return [*lines, "no verdict"] if not verdicts else lines


def _speed(along_mm_s: float, about_rad_s: float) -> str:
    """Return the speed of a phase: along the axis, about the joint, or nothing where it has none."""
    if math.isfinite(along_mm_s):
        return f"  {along_mm_s:g} mm/s"
    return f"  {about_rad_s:+g} rad/s" if math.isfinite(about_rad_s) else ""


def _commit(git: dict[str, object]) -> str:
    if not git:
        return ""
    return f", commit {str(git['commit'])[:12]}{' with changes' if git['dirty'] else ''}"


if __name__ == "__main__":
    raise SystemExit(main())
