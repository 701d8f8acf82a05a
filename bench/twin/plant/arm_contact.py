"""The tool's spherical tip against a specimen's flat surface: the indenter's tissue, pressed by an imposed depth."""

from __future__ import annotations

import copy
import math

from bench.twin.plant.arm_truth import ContactTruth
from bench.twin.plant.tissue import Tissue


class Surface:
    """A specimen and how deep the sphere is in it. No friction: the force is along the outward normal.

    Depth is that of the sphere's lowest point below the surface, so how the tool is turned does not matter.
    """

    def __init__(self, truth: ContactTruth, radius: float, seed: int) -> None:
        self.truth = truth
        self.tissue = Tissue(truth.tissue, math.inf, seed)
        self.normal = list(truth.normal)
        self._radius = radius
        self.force = 0.0

    def copy(self) -> Surface:
        """An independent one in the same state."""
        other, tissue = copy.copy(self), copy.copy(self.tissue)
        tissue.factors, tissue.surfaces = list(tissue.factors), list(tissue.surfaces)
        other.tissue = tissue
        return other

    def travel_mm(self, centre: list[float]) -> float:
        """How far the sphere's lowest point is below the nominal surface [mm], its centre [m] in the base frame."""
        (x, y, z), (a, b, c), (u, v, w) = centre, self.truth.point, self.normal
        return 1e3 * (self._radius - (x - a) * u - (y - b) * v - (z - c) * w)

    def idle(self, travel_mm: float) -> bool:
        """Whether a step to there can change nothing: clear of a surface that rests."""
        return travel_mm < self.tissue.surface and self.force == 0.0 and self.tissue.at_rest and not self.tissue.pressed

    def press(self, travel_mm: float, step_s: float) -> float:
        """Step to this depth; the force [N]."""
        forces: list[float] = []
        self.tissue.advance([travel_mm], step_s, math.inf, forces)
        self.force = forces[0]
        return self.force

    def stiffness(self) -> float:
        """Slope of the force over depth now [N/m], relaxation left out."""
        return 1e3 * self.tissue.stiffness() if self.force > 0.0 else 0.0
