"""A viscoelastic specimen under a tool on a compliant frame, stepped exactly enough to be called the truth.

Quasi-linear viscoelasticity: F(t) = ∫ G(t - s) dF_e(d(s)), F_e = F_ref (d/d_ref)^n, G(t) = 1 - Σ g_i (1 - exp(-t/τ_i))
(Fung, *Biomechanics*, 2nd ed., ch. 7.6). Each term h_i obeys h_i' = -h_i/τ_i + g_i F_e'; over a step with F_e linear in
time its update is exact, so a step is second-order accurate. The frame gives way, d = z - F/K with z the depth the
stage has commanded, and this is solved on every step by Newton's method with the last depth as a start.

Tissue never pulls: where the law would give F < 0 the tool has left, F = 0, and the surface recovers by itself along
the path that keeps its own force zero (the condition of Ting, J. Appl. Mech. 33, 1966, for unloading).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.noise import generator
from bench.twin.plant.truth import TissueTruth

Floats = NDArray[np.float64]

FORCE_TOLERANCE_N = 1e-9
LIFT_OFF_MM = 0.5
"""A tool this far above the surface ends a press; the next one is a new replicate."""
_TERMS = 3
_REST_N = 1e-9


class Tissue:
    """State and stepping of one specimen.

    Parameters
    ----------
    truth : TissueTruth
        Nominal values and scatter.
    frame_stiffness : float
        Of frame and tool [N/mm]; ``inf`` for an imposed depth.
    seed : int
        Draws the specimen and its replicates.
    """

    def __init__(self, truth: TissueTruth, frame_stiffness: float, seed: int) -> None:
        if len(truth.prony) > _TERMS or sum(g for g, _ in truth.prony) >= 1.0:
            raise TwinError(
                f"a Prony series of at most {_TERMS} terms with a sum of g below 1 is simulated, not {truth.prony}",
                where=f"specimen {truth.name!r}",
            )
        if truth.exponent < 1.0:
            raise TwinError(f"exponent {truth.exponent} < 1 is not simulated", where=f"specimen {truth.name!r}")
        self.truth = truth
        self._seed = seed
        self._compliance = 1.0 / frame_stiffness
        draw = generator(seed, f"specimen/{truth.name}")
        force, exponent, surface = draw.standard_normal(3)
        self.force_ref = truth.force_ref_N * max(0.05, 1.0 + truth.specimen_force_scatter * float(force))
        self.exponent = max(1.0, truth.exponent * (1.0 + truth.specimen_exponent_scatter * float(exponent)))
        self.base_surface = truth.surface_mm + truth.specimen_surface_scatter_mm * float(surface)
        terms = [*truth.prony, *([(0.0, 1.0)] * (_TERMS - len(truth.prony)))]
        self._g = tuple(g for g, _ in terms)
        self._tau = tuple(tau for _, tau in terms)
        self._coefficients: dict[float, tuple[float, ...]] = {}
        self._elastic = 0.0  # F_e of the tissue's own surface
        self._h = (0.0, 0.0, 0.0)
        self._depth = 0.0
        self._last_depth = 0.0
        self.ruptured = False
        self.pressed = False
        self.factors: list[float] = []
        self.surfaces: list[float] = []
        self.surface = self.base_surface
        self._new_replicate()

    def _new_replicate(self) -> None:
        index = len(self.factors)
        force, surface = generator(self._seed, f"replicate/{self.truth.name}/{index}").standard_normal(2)
        factor = max(0.05, 1.0 + self.truth.replicate_force_scatter * float(force))
        if self.factors:
            ratio = factor / self.factors[-1]
            self._elastic *= ratio
            self._h = (self._h[0] * ratio, self._h[1] * ratio, self._h[2] * ratio)
        self.factors.append(factor)
        self.surface = self.base_surface + self.truth.replicate_surface_scatter_mm * float(surface)
        self.surfaces.append(self.surface)
        left = 1.0 - self.truth.rupture_drop if self.ruptured else 1.0
        self._k = self.force_ref * factor * left / self.truth.depth_ref_mm**self.exponent
        self.pressed = False

    def _steps(self, dt: float) -> tuple[float, ...]:
        known = self._coefficients.get(dt)
        if known is None:
            decay = [math.exp(-dt / tau) for tau in self._tau]
            q = [g * tau / dt * -math.expm1(-dt / tau) for g, tau in zip(self._g, self._tau, strict=True)]
            known = (*decay, *q, sum(q), 1.0 - sum(self._g) + sum(q))
            if len(self._coefficients) < 64:
                self._coefficients[dt] = known
        return known

    def lift_off(self) -> None:
        """The tool is well clear: what comes next is another press, elsewhere on the specimen."""
        if self.pressed:
            self._new_replicate()

    @property
    def at_rest(self) -> bool:
        """No deformation and no memory of one."""
        return self._elastic == 0.0 and self._h == (0.0, 0.0, 0.0)

    def stiffness(self) -> float:
        """Slope dF_e/dd [N/mm] at the present depth; 0 where nothing is pressed."""
        depth = self._depth
        return self.exponent * self._k * depth ** (self.exponent - 1.0) if depth > 0.0 else 0.0

    def advance(self, travel: list[float], dt: float, stall_N: float, forces: list[float]) -> bool:
        """Step along tool positions, appending one force [N] each.

        Parameters
        ----------
        travel : list of float
            Stage-side tool positions [mm] at the ends of consecutive steps of ``dt`` [s].
        stall_N : float
            Stop after the first step whose force is above this.
        forces : list of float
            Output; has fewer new entries than ``travel`` when the stall force or a lift-off ended the stepping early.

        Returns
        -------
        bool
            Whether the stall force was exceeded.
        """
        e1, e2, e3, q1, q2, q3, q, a = self._steps(dt)
        h1, h2, h3 = self._h
        k, n, c = self._k, self.exponent, self._compliance
        elastic, depth, last = self._elastic, self._depth, self._last_depth
        surface = self.surface
        lam = self.truth.hunt_crossley_s_mm / dt
        rupture = math.inf if self.truth.rupture_depth_mm is None or self.ruptured else self.truth.rupture_depth_mm
        stalled = lifted = False
        append = forces.append
        for x in travel:
            z = x - surface
            b = h1 * e1 + h2 * e2 + h3 * e3 - q * elastic
            force = 0.0
            if z > 0.0:
                d = 2.0 * depth - last
                if d <= 0.0 or d > z:
                    d = z
                for _ in range(60):
                    f_e = k * d**n
                    slope_e = n * f_e / d
                    force = a * f_e + b
                    slope = a * slope_e
                    if lam and force > 0.0:
                        damping = 1.0 + lam * (d - depth)
                        if damping < 0.0:
                            damping = 0.0
                        slope = slope * damping + force * lam
                        force *= damping
                    step = (d + force * c - z) / (1.0 + slope * c)
                    if slope * step * step <= FORCE_TOLERANCE_N * d:
                        force -= slope * step
                        f_e -= slope_e * step
                        d -= step
                        break
                    d = d - step if step < d else 0.5 * d
                else:
                    raise TwinError(f"contact did not converge at z = {z} mm", where=f"specimen {self.truth.name!r}")
            if force > 0.0:
                last, depth = depth, d
                self.pressed = True
            else:
                force = 0.0
                f_e = -b / a if b < 0.0 else 0.0
                last = depth = z if z > 0.0 else 0.0
                if z < 0.0:
                    if (
                        f_e < _REST_N
                        and -_REST_N < h1 < _REST_N
                        and -_REST_N < h2 < _REST_N
                        and -_REST_N < h3 < _REST_N
                    ):
                        f_e = elastic = h1 = h2 = h3 = 0.0
                    lifted = z < -LIFT_OFF_MM and self.pressed
            rise = f_e - elastic
            h1 = h1 * e1 + q1 * rise
            h2 = h2 * e2 + q2 * rise
            h3 = h3 * e3 + q3 * rise
            elastic = f_e
            append(force)
            if depth > rupture and force > 0.0:
                left = 1.0 - self.truth.rupture_drop
                self.ruptured = True
                rupture = math.inf
                self._k = k = k * left
                elastic, h1, h2, h3 = elastic * left, h1 * left, h2 * left, h3 * left
            if force > stall_N:
                stalled = True
                break
            if lifted:
                break
        self._elastic, self._h, self._depth, self._last_depth = elastic, (h1, h2, h3), depth, last
        if lifted:
            self.lift_off()
        return stalled


def force_along_ramp(tissue: Tissue, depths_mm: Floats, speed_mm_s: float, steps: int = 20000) -> Floats:
    """True force of a specimen pressed at a constant *tissue* speed from first touch.

    Parameters
    ----------
    tissue : Tissue
        The specimen as drawn for its seed; its replicates' scatter is left out.
    depths_mm : ndarray (n,)
        Depths below the surface, increasing or not.
    speed_mm_s : float
        Constant dd/dt of the depth itself (not of the stage).

    Returns
    -------
    ndarray (n,)
        Forces [N].
    """
    truth = tissue.truth
    bare = TissueTruth(
        name=truth.name,
        surface_mm=0.0,
        force_ref_N=tissue.force_ref,
        depth_ref_mm=truth.depth_ref_mm,
        exponent=tissue.exponent,
        prony=truth.prony,
        hunt_crossley_s_mm=truth.hunt_crossley_s_mm,
    )
    imposed = Tissue(bare, math.inf, 0)
    deepest = float(np.max(depths_mm))
    grid = np.linspace(0.0, deepest, steps + 1)
    forces: list[float] = [0.0]
    imposed.advance(grid[1:].tolist(), deepest / speed_mm_s / steps, math.inf, forces)
    result: Floats = np.interp(depths_mm, grid, np.asarray(forces))
    return result
