"""What a session leaves of the arm it identified."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import bench.arm_feedforward
import bench.identify.arm_identify
from bench.identify.arm_export import ArmFeedForwardFile
from bench.profile import load_arm_feedforward
from fixtures.arm import identified_feedforward
from fixtures.session import BenchSession


@pytest.mark.parametrize("backend", ["mock", "replay"])
def test_an_identified_arm_lies_among_the_results_as_a_file_and_as_a_urdf(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    text = (repository / "tests/unit/example_arm_feedforward.toml").read_text(encoding="utf-8")
    found = ArmFeedForwardFile(text)
    of_rig: list[object] = []

    def identify(excited: Any, tracked: list[Any]) -> Any:
        return SimpleNamespace(feedforward=lambda: found)

    def urdf(feedforward: Any, rig: object) -> str:
        of_rig.append(rig)
        return f"<robot name={feedforward.rig!r}/>"

    monkeypatch.setattr(bench.identify.arm_identify, "identify_arm", identify)
    monkeypatch.setattr(bench.arm_feedforward, "arm_feedforward_urdf", urdf)
    settings = SimpleNamespace(feedforward=None, backend=backend, results=tmp_path)
    session = cast("BenchSession", SimpleNamespace(settings=settings, rig=lambda: "the rig"))
    run = cast("Any", SimpleNamespace(path=tmp_path / "20310506T070809Z_arm_excitation.h5"))
    assert identified_feedforward(session, lambda *_, **__: run, lambda: run) is found
    if backend == "replay":
        assert list(tmp_path.iterdir()) == []
        return
    written = tmp_path / "20310506T070809Z_arm_excitation.feedforward.toml"
    assert load_arm_feedforward(written).rig == "full_arm"
    assert written.with_name("20310506T070809Z_arm_excitation.urdf").read_text() == "<robot name='full_arm'/>"
    assert of_rig == ["the rig"]
