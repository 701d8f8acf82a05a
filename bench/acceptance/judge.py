"""Judge an archived run by a set of criteria: a pure function of the two.

What is common to all subjects is here: the archive is what was sealed, the run ended as planned, the criteria are those
it was made under, the worst row decides. How presses are judged stands in :mod:`bench.acceptance.contact`, how a joint
is in :mod:`bench.acceptance.joint`, an arm in :mod:`bench.acceptance.arm`.
"""

from __future__ import annotations

from pathlib import Path

import bench
from bench.acceptance.decision import worst
from bench.acceptance.rows import Judged
from bench.acceptance.verdict import Verdict
from bench.archive import Run, verify_digest
from bench.errors import ProfileError
from bench.profile import ArmCriteria, ContactCriteria, CriteriaProfile, JointCriteria, parse_profile

COMPLETE = "COMPLETE"
#: How the names of the criteria begin among the texts of an archive.
ARCHIVED_CRITERIA = "acceptance/"


def judge_run(run: Run | str | Path, criteria: CriteriaProfile) -> Verdict:
    """Judge an archived run.

    Parameters
    ----------
    run : Run or path
        A sealed archive; a path is opened and closed here.
    criteria : CriteriaProfile

    Returns
    -------
    Verdict
        One row per criterion. PASS, MARGINAL and FAIL are said of the device under test; ERROR of the bench: the run
        was aborted or crashed, a channel is missing, a fit was refused, a certificate had expired, what was recorded is
        not what the archive says it is, the criteria changed since the run without a new version. NOT-RUN when there is
        nothing to judge: no such segment, too few replicates. The overall outcome is the worst of the rows by
        :data:`~bench.acceptance.decision.SEVERITY`. The same archive and criteria give the same verdict.

    Raises
    ------
    ArchiveError
        The archive cannot be opened at all, or its content is not what was sealed.
    """
    if not isinstance(run, Run):
        with Run.open(run) as opened:
            return judge_run(opened, criteria)
    verify_digest(run.path)
    archived = criteria.source.text in run.texts.values()
    why_not = ""
    if run.status != COMPLETE:
        why_not = f"the run is {run.status}" + (f" ({run.reason})" if run.reason else "")
    elif not archived:
        why_not = _changed_since(run, criteria)
    judged = _judge(run, criteria, why_not)
    return Verdict(
        outcome=worst(row.outcome for row in judged.rows),
        rows=judged.rows,
        explanation="; ".join(part for part in (judged.explanation, *judged.cautions) if part),
        criteria_name=criteria.name,
        criteria_version=criteria.version,
        criteria_sha256=criteria.source.sha256,
        archive=run.path.name,
        archive_digest=run.digest,
        simulated=run.simulated,
        software_version=bench.__version__,
        criteria_archived=archived,
        analysis=judged.analysis,
    )


def _judge(run: Run, criteria: CriteriaProfile, why_not: str) -> Judged:
    # Imported here: a session of one rig need not wait for the other's analysis.
    if isinstance(criteria, ContactCriteria):
        from bench.acceptance.contact import judge_contact

        return judge_contact(run, criteria, why_not)
    if isinstance(criteria, JointCriteria):
        from bench.acceptance.joint import judge_joint

        return judge_joint(run, criteria, why_not)
    if isinstance(criteria, ArmCriteria):
        from bench.acceptance.arm import judge_arm

        return judge_arm(run, criteria, why_not)
    raise ProfileError(
        f"nobody here judges the subject '{criteria.subject}'",
        where=str(criteria.source.path),
        remedy='Use criteria with subject = "contact", "joint" or "arm"',
    )


def _changed_since(run: Run, criteria: CriteriaProfile) -> str:
    """Say that the run holds other criteria of the same name and version; nothing when it does not.

    Limits are fixed before anything is measured. Whoever changes them gives them a new version, so that no verdict
    goes by the name of criteria that were others. Comments and descriptions may change.
    """
    for name, text in run.texts.items():
        if not name.startswith(ARCHIVED_CRITERIA):
            continue
        found, _ = parse_profile(text, Path(f"{run.path}:{name}"))
        if not isinstance(found, CriteriaProfile) or (found.name, found.version) != (criteria.name, criteria.version):
            continue
        if _decisive(found) != _decisive(criteria):
            return (
                f"criteria {criteria.name} {criteria.version} changed since the run was made: it holds others of that "
                "name and version. Judge by those, or give the changed ones a new version"
            )
    return ""


def _decisive(criteria: CriteriaProfile) -> tuple[object, ...]:
    """Return what of criteria decides a verdict."""
    return criteria.subject, getattr(criteria, "analysis", None), criteria.criteria
