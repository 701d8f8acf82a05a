"""Archives of simulated presses, and criteria with single words changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.profile import CriteriaProfile, parse_profile

RATE = 100.0

Press = dict[str, float]


def simulate(press: Press) -> tuple[np.ndarray, np.ndarray, list[tuple[str, int]]]:
    """Return encoder position, force and segment lengths of one press; a power law, with the frame's give."""
    speed, free_air = press.get("speed", 2.0), press.get("free_air", 3.0)
    step, top = speed / RATE, free_air + press.get("depth", 5.0)
    moving = round(top / step)
    tip = np.concatenate(
        [
            np.zeros(round(press.get("baseline_s", 1.2) * RATE)),
            np.arange(1, moving + 1) * step,
            np.full(round(2.0 * RATE), top),
            top - np.arange(1, moving + 1) * step,
            np.zeros(round(press.get("residual_s", 4.0) * RATE)),
        ]
    )
    lengths = [
        ("baseline", round(press.get("baseline_s", 1.2) * RATE)), ("rise", moving), ("hold", round(2.0 * RATE)),
        ("unload", moving), ("residual", round(press.get("residual_s", 4.0) * RATE)),
    ]  # fmt: skip
    force = press.get("F", 2.6) * (np.maximum(tip - free_air, 0.0) / 5.0) ** press.get("n", 1.5)
    force[-lengths[-1][1] :] += press.get("residual", 0.0)
    return tip + force / press.get("frame", math.inf), force, lengths


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., Path]:
    """Write an archive of simulated presses."""

    def write(
        presses: Sequence[Press],
        *,
        noise: float = 1e-6,
        texts: dict[str, str] | None = None,
        status: str = "COMPLETE",
        reason: str = "",
        kind: tuple[str, str] = ("N", "force"),
        channel: str = "contact_force",
        change: Callable[[np.ndarray], np.ndarray] = lambda force: force,
    ) -> Path:
        parts = [simulate(press) for press in presses]
        position = np.concatenate([part[0] for part in parts])
        force = np.concatenate([part[1] for part in parts])
        force = change(force + noise * np.random.default_rng(3).standard_normal(len(force)))
        time_s = np.arange(len(force)) / RATE
        provenance = Provenance(
            "A. Example", "phantom", "indentation", "indenter", datetime(2026, 3, 1, tzinfo=UTC), "mock", True,
            seed=3, texts=texts or {},
        )  # fmt: skip
        groups = [
            GroupSpec("force", (DatasetSpec("contact", *kind, (channel,)),), RATE, 100),
            GroupSpec("encoder", (DatasetSpec("position", "mm", "length", ("encoder_position",)),), RATE, 100),
        ]
        with RunWriter.create(tmp_path, "indentation", provenance, groups) as writer:
            writer.append("force", {"contact": force[:, None]}, time_s)
            writer.append("encoder", {"position": position[:, None]}, time_s)
            start = 0
            for replicate, (press, (_, _, lengths)) in enumerate(zip(presses, parts, strict=True)):
                for name, length in lengths:
                    writer.phase(name, replicate, press.get("speed", 2.0), start / RATE, (start + length) / RATE)
                    start += length
            return writer.close(status, reason)

    return write


@pytest.fixture(scope="session")
def criteria(repository: Path) -> Callable[..., CriteriaProfile]:
    """The acceptance criteria of the bench for a power law without a frame, with single words changed."""
    text = (repository / "profiles" / "acceptance" / "contact_model.toml").read_text(encoding="utf-8")
    text = text.replace('"qlv2"', '"power_law"').replace("compensate_frame = true", "compensate_frame = false")

    def make(*changes: tuple[str, str]) -> CriteriaProfile:
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        profile, problems = parse_profile(changed, Path("criteria.toml"))
        assert isinstance(profile, CriteriaProfile), problems
        return profile

    return make


@pytest.fixture(scope="session")
def rig_text(repository: Path) -> str:
    return (repository / "profiles" / "rigs" / "indenter.toml").read_text(encoding="utf-8")
