"""Real curves as archives, imported once for all tests that look at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.archive import import_files


@pytest.fixture(scope="session")
def beef(reference_data: Path) -> Path:
    folder = reference_data / "beef_indentation"
    if not folder.is_dir():
        pytest.skip("no beef indentation curves in the reference data")
    return folder


@pytest.fixture(scope="session")
def curves(beef: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    results = tmp_path_factory.mktemp("curves")
    return import_files(repository / "profiles/imports/zwick_csv.toml", sorted((beef / "csv").glob("*.csv")), results)


@pytest.fixture(scope="session")
def sheets(beef: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("openpyxl", reason="extra `excel` is not installed")
    results = tmp_path_factory.mktemp("sheets")
    return import_files(repository / "profiles/imports/zwick_xlsx.toml", sorted((beef / "raw").glob("*.xlsx")), results)
