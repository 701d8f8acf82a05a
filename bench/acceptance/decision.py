"""Outcomes and the decision rule: when a value with its uncertainty meets a limit.

The rule is fixed in the criterion, before anything is measured (JCGM 106:2012, ILAC-G8:09/2019):

``simple``
    PASS when the value is below the limit, else FAIL. The uncertainty is stated and does not enter.
``guard_band``
    The guard band is the expanded uncertainty, w = U. PASS when value + U is below the limit; FAIL when value − U is at
    or above it; MARGINAL in between: neither conformity nor non-conformity is shown.

"Below" is strict: a value equal to its limit does not pass. A missing, infinite or NaN value or uncertainty never
passes: it is an ERROR of the bench, whatever the rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

DecisionRule = Literal["simple", "guard_band"]


class Outcome(StrEnum):
    """What a judgement comes to. :data:`SEVERITY` orders them from best to worst."""

    PASS = "PASS"
    MARGINAL = "MARGINAL"
    NOT_RUN = "NOT-RUN"
    FAIL = "FAIL"
    ERROR = "ERROR"


#: From best to worst. The overall outcome is the worst of its rows. NOT-RUN is worse than MARGINAL, because nothing was
#: learnt; ERROR is the worst, because a bench at fault says nothing about the device, neither good nor bad.
SEVERITY: tuple[Outcome, ...] = (Outcome.PASS, Outcome.MARGINAL, Outcome.NOT_RUN, Outcome.FAIL, Outcome.ERROR)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of ``outcomes`` by :data:`SEVERITY`; NOT-RUN when there are none."""
    return max(outcomes, key=SEVERITY.index, default=Outcome.NOT_RUN)


def decide(value: float, expanded_uncertainty: float, limit: float, rule: DecisionRule) -> Outcome:
    """Apply a decision rule to a magnitude that must lie below a limit.

    Parameters
    ----------
    value, expanded_uncertainty, limit : float
        In one unit. ``value`` is a magnitude (>= 0), ``expanded_uncertainty`` its U.
    rule : {"simple", "guard_band"}
        See the module's text.

    Returns
    -------
    Outcome
        PASS, MARGINAL, FAIL, or ERROR when a number is missing or makes no sense.
    """
    numbers = (value, expanded_uncertainty, limit)
    if not all(math.isfinite(number) for number in numbers) or value < 0 or expanded_uncertainty < 0 or limit <= 0:
        return Outcome.ERROR
    if rule == "simple":
        return Outcome.PASS if value < limit else Outcome.FAIL
    if value + expanded_uncertainty < limit:
        return Outcome.PASS
    return Outcome.FAIL if value - expanded_uncertainty >= limit else Outcome.MARGINAL
