"""A few lines of SVG: texts, lines, bars and axes, without a drawing library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FONT = "font-family='DejaVu Sans, Verdana, Helvetica, sans-serif'"
INK, FAINT, RULE, PAPER = "#1b2430", "#5d6b7c", "#d5dbe3", "#ffffff"
GOOD, BAD, CONTACT, BAND = "#1f6fb2", "#c62f2f", "#b26a1f", "#eef3f8"
#: Points of a line: more would not be seen.
MOST_POINTS = 1600


def text(
    x: float, y: float, said: str, *, size: float = 12, fill: str = INK, anchor: str = "start", weight: str = ""
) -> str:
    """Return a text; ``anchor`` start, middle or end."""
    bold = f" font-weight='{weight}'" if weight else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size:g}' fill='{fill}' text-anchor='{anchor}'{bold}>"
        f"{escape(said)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = RULE, width: float = 1.0, dash: str = "") -> str:
    """Return a straight line."""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{stroke}' "
        f"stroke-width='{width:g}'{dashed}/>"
    )


def rect(x: float, y: float, width: float, height: float, *, fill: str = BAND, stroke: str = "none") -> str:
    """Return a rectangle."""
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0.0):.1f}' height='{max(height, 0.0):.1f}' "
        f"fill='{fill}' stroke='{stroke}'/>"
    )


def circle(x: float, y: float, radius: float, *, fill: str) -> str:
    """Return a disc."""
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:g}' fill='{fill}'/>"


def polyline(x: Floats, y: Floats, *, stroke: str = GOOD, width: float = 1.4) -> str:
    """Return a line through points; what is not finite is left out."""
    kept = np.isfinite(x) & np.isfinite(y)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[kept], y[kept], strict=True))
    return (
        f"<polyline points='{points}' fill='none' stroke='{stroke}' stroke-width='{width:g}' "
        "stroke-linejoin='round' stroke-linecap='round'/>"
    )


def thinned(values: Floats) -> NDArray[np.intp]:
    """Return indices of at most :data:`MOST_POINTS` points that keep every extreme a picture could show."""
    count = len(values)
    if count <= MOST_POINTS:
        return np.arange(count, dtype=np.intp)
    edges = np.linspace(0, count, MOST_POINTS // 2 + 1).astype(int)
    kept = {0, count - 1}
    for first, last in pairwise(edges.tolist()):
        piece = values[first:last]
        kept |= {first + int(np.argmin(piece)), first + int(np.argmax(piece))}
    return np.array(sorted(kept), dtype=np.intp)


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Return round numbers between ``low`` and ``high``."""
    span = high - low
    if not math.isfinite(span) or span <= 0.0:
        return [low]
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= raw)
    first = math.ceil(low / step)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def document(width: float, height: float, parts: Sequence[str], title: str) -> str:
    """Return a self-contained SVG file."""
    return "\n".join(
        [
            "<?xml version='1.0' encoding='UTF-8'?>",
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
            f"height='{height:g}' {FONT} role='img'>",
            f"<title>{escape(title)}</title>",
            rect(0, 0, width, height, fill=PAPER),
            *parts,
            "</svg>",
            "",
        ]
    )
