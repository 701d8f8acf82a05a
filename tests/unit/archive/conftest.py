"""A small archive to take apart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter

STARTED = datetime(2031, 5, 6, 7, 8, 9, 250_000, tzinfo=UTC)


@pytest.fixture
def archive_groups() -> tuple[GroupSpec, ...]:
    """Two time bases: one hardware-clocked with two datasets, one slow and irregular."""
    return (
        GroupSpec(
            "daq",
            (
                DatasetSpec("raw", "V", "voltage", ("gauge_0", "gauge_1"), long_name="bridge outputs"),
                DatasetSpec("position", "mm", "length", ("encoder_position",)),
            ),
            rate_hz=1000.0,
            block=100,
        ),
        GroupSpec("stage", (DatasetSpec("reported", "mm", "length", ("stage_position",)),), block=4),
    )


@pytest.fixture
def archive_provenance() -> Callable[..., Provenance]:
    """Return a function that makes a valid provenance; keywords replace its values."""

    def make(**changes: Any) -> Provenance:
        given: dict[str, Any] = {
            "operator": "Ada",
            "specimen": "phantom_a",
            "procedure": "indentation",
            "rig": "indenter",
            "started_utc": STARTED,
            "backend": "mock",
            "simulated": True,
            "seed": 7,
            "texts": {"rigs/indenter.toml": 'name = "indenter"  # é\n'},
        }
        return Provenance(**(given | changes))

    return make


@pytest.fixture
def archive_writer(
    tmp_path: Path, archive_groups: tuple[GroupSpec, ...], archive_provenance: Callable[..., Provenance]
) -> Callable[..., RunWriter]:
    """Return a function that creates a writer in ``tmp_path``; keywords go to ``RunWriter.create``."""

    def make(name: str = "press", provenance: Provenance | None = None, **options: Any) -> RunWriter:
        return RunWriter.create(tmp_path, name, provenance or archive_provenance(), archive_groups, **options)

    return make


def samples(first: int, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return values and times of the group ``daq`` for ``count`` samples from ``first`` on."""
    sample = np.arange(first, first + count)
    raw = np.stack([sample * 0.001, -sample * 0.002], axis=1)
    return {"raw": raw, "position": sample * 0.5}, sample / 1000.0


@pytest.fixture
def archive_samples() -> Callable[[int, int], tuple[dict[str, np.ndarray], np.ndarray]]:
    """Return the function that makes samples of the group ``daq``: gauge_0 = 0.001 i, encoder_position = 0.5 i."""
    return samples


@pytest.fixture
def sealed_run(archive_writer: Callable[..., RunWriter]) -> Path:
    """A complete archive of 250 samples with a phase, an event and an anchor."""
    writer = archive_writer()
    for first, count in ((0, 130), (130, 1), (131, 119)):
        writer.append("daq", *samples(first, count))
    writer.append("stage", {"reported": [1.0, 2.0, 3.0]}, [0.0, 0.1, 0.2])
    writer.phase("press", 1, 2.0, 0.05, 0.2)
    writer.event(0.1, "info", "contact", "touched the tissue at 0.1 s")
    writer.set_anchor("daq", 123, 1_900_000_000_000_000_000, 50)
    return writer.close("COMPLETE")
