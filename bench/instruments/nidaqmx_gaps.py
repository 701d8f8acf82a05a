"""Does a device still have all its samples? Its own count is held against the computer's clock."""

from __future__ import annotations

from collections import deque

LARGE_S = 0.05
"""A lag of the count no transfer or scheduling explains."""
SMALL_S = 0.005
"""A lag that is a gap when it stays: buses deliver in packets, so once is nothing."""
REMEMBERED = 20


class CountWatch:
    """Watches how far a task's count of acquired samples lags behind the time since its start.

    The lag of a healthy task wanders by the bus's packets and by the drift of two quartz clocks, both slow or small; a
    gap makes it jump and stay. Each observation is bracketed by two clock readings, so that a slow answer cannot pass
    for a gap.

    >>> watch = CountWatch(rate_hz=1000.0)
    >>> [watch.missing(t, t, n) for t, n in ((1.0, 1000), (2.0, 2000), (3.0, 2980), (4.0, 3980))]
    [0.0, 0.0, 0.0, 20.0]
    """

    def __init__(self, rate_hz: float) -> None:
        self._rate = rate_hz
        self._lags: deque[float] = deque(maxlen=REMEMBERED)
        self.suspect = False  # the last observation lagged: look again soon

    def missing(self, before_s: float, after_s: float, acquired: int) -> float:
        """Return how many samples are surely missing, 0.0 while all is well.

        Parameters
        ----------
        before_s, after_s : float
            Time since the start, before and after the count was asked for [s].
        acquired : int
            The task's count of samples acquired since the start.
        """
        least, most = before_s * self._rate - acquired, after_s * self._rate - acquired
        excess = least - min(self._lags, default=0.0)
        if excess > LARGE_S * self._rate:
            return excess
        if self._lags and excess > max(2.0, SMALL_S * self._rate):
            if self.suspect:
                return excess
            self.suspect = True
            return 0.0
        self.suspect = False
        self._lags.append(most)
        return 0.0
