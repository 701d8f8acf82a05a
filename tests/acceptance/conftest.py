"""What lab tests of a joint share: one friction sweep a session, and the feed-forward identified from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.archive import Run
from bench.errors import ArchiveError
from fixtures.session import BenchSession


@pytest.fixture(scope="session")
def feedforward(bench_session: BenchSession, perform: Callable[..., Run]) -> object:
    """Friction feed-forward of this session's joint: ``--feedforward FILE``, else identified from a friction sweep.

    A load whose weight varies with the angle has to be mounted, for it tells the drive's torque scale; what was found
    lies among the results, for sessions with another load. On replay an archived tracking brings its own file along,
    so an archived sweep is identified again where there is one.
    """
    from bench.identify.feedforward import assemble
    from bench.identify.friction import identify_friction
    from bench.identify.lugre import identify_lugre

    settings = bench_session.settings
    if settings.feedforward is not None:
        return settings.feedforward
    try:
        sweep = perform("friction_sweep")
    except ArchiveError:
        if settings.backend != "replay":
            raise
        return None
    friction = identify_friction(sweep, model="stribeck")
    found = assemble(friction, lugre=identify_lugre(sweep, friction))
    if settings.backend != "replay":
        found.write(Path(settings.results) / f"{sweep.path.stem}.feedforward.toml")
    return found
