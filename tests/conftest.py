"""Fixtures every test may use."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

_state_folders = count()


@pytest.fixture(scope="session", autouse=True)
def state_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the folders of leases and quarantines: no test touches the machine's, nor another test's."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("BENCH_STATE_DIR")
    os.environ["BENCH_STATE_DIR"] = str(folder / "session")  # for stations that outlive a test
    yield folder
    if before is None:
        del os.environ["BENCH_STATE_DIR"]
    else:
        os.environ["BENCH_STATE_DIR"] = before


@pytest.fixture(autouse=True)
def state_folder(state_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's own folder of leases and quarantines; what it starts inherits it."""
    folder = state_folders / str(next(_state_folders))
    monkeypatch.setenv("BENCH_STATE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return ROOT


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of real measurements; the test is skipped where there is none."""
    named = os.environ.get("BENCH_REFERENCE_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no reference data: set BENCH_REFERENCE_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def open_rig(repository: Path) -> Callable[..., Any]:
    """``open_rig(specimen, rig="indenter", seed=…, **options)``: a station on the twin, to be used in ``with``."""

    def open_rig(specimen: str = "liver_phantom_a", *, rig: str = "indenter", **options: Any) -> Any:
        from bench.profile import load_rig, load_specimen, load_twin
        from bench.station import open_station

        profiles = repository / "profiles"
        return open_station(
            load_rig(profiles / "rigs" / f"{rig}.toml"),
            "mock",
            twin=load_twin(profiles / "twins" / f"{rig}.toml"),
            specimen=load_specimen(profiles / "specimens" / f"{specimen}.toml"),
            **options,
        )

    return open_rig


@pytest.fixture(scope="session")
def simulated_joint() -> Any:
    """The module ``simulated_joint.py`` beside this file: archives of a joint that is known exactly."""
    name = "simulated_joint"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
def judged_joint(simulated_joint: Any, repository: Path, tmp_path: Path) -> Callable[..., Any]:
    """``judged_joint(kind, recording, criteria=(), **options)``: archive it, judge it, return the verdict.

    ``criteria`` are single words of the criteria to change, (old, new).
    """
    from bench.acceptance import judge_run
    from bench.profile import parse_profile

    named = {
        "tracking": ("low_speed_tracking", "friction_compensation"),
        "step": ("impedance_step", "impedance_step"),
        "excitation": ("fourier_excitation", "joint_identification"),
    }

    def judged_joint(kind: str, recording: Any, criteria: tuple[tuple[str, str], ...] = (), **options: Any) -> Any:
        procedure, judged_by = named[kind]
        if kind == "step":
            options.setdefault("specimen", "balanced_arm")
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        path = simulated_joint.archive(folder, repository / "profiles", procedure, recording, **options)
        text = (repository / "profiles/acceptance" / f"{judged_by}.toml").read_text(encoding="utf-8")
        for old, new in criteria:
            assert old in text, f"{old} is not in the criteria"
            text = text.replace(old, new)
        profile, problems = parse_profile(text, Path("criteria.toml"))
        assert not problems, problems
        return judge_run(path, profile)

    return judged_joint
