"""Criteria, uncertainty, decision rule, verdict: pure functions of an archive and a criteria profile.

>>> verdict = judge_run(run, load_criteria("profiles/acceptance/contact_model.toml"))    # doctest: +SKIP
>>> verdict.outcome, [str(row) for row in verdict.rows]                                  # doctest: +SKIP
"""

from bench.acceptance.decision import SEVERITY, Outcome, decide, worst
from bench.acceptance.judge import judge_run
from bench.acceptance.metrics import METRICS, Metric
from bench.acceptance.uncertainty import Budget, Component, coverage_factor
from bench.acceptance.verdict import ReplicateValue, Row, Verdict

__all__ = [
    "METRICS",
    "SEVERITY",
    "Budget",
    "Component",
    "Metric",
    "Outcome",
    "ReplicateValue",
    "Row",
    "Verdict",
    "coverage_factor",
    "decide",
    "judge_run",
    "worst",
]
