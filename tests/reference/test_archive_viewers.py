"""An archive in other people's programs: names, units, time axis and default plot, with nothing of ours loaded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    group = GroupSpec(
        "daq",
        (
            DatasetSpec("force", "N", "force", ("contact_force", "side_force")),
            DatasetSpec("position", "mm", "length", ("encoder_position",)),
        ),
        rate_hz=1000.0,
        block=100,
    )
    provenance = Provenance("Ada", "phantom", "indentation", "indenter", datetime.now(UTC), "mock", True, 1)
    with RunWriter.create(tmp_path_factory.mktemp("viewers"), "press", provenance, [group]) as writer:
        sample = np.arange(350)
        writer.append(
            "daq", {"force": np.stack([sample * 0.1, sample * 0.0], 1), "position": sample * 2.0}, sample / 1000.0
        )
        writer.phase("press", 0, 2.0, 0.0, 0.2)
    return writer.path


def test_xarray_opens_a_group_with_units_and_a_time_coordinate(archive: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="extra `peers` is not installed")
    pytest.importorskip("h5netcdf", reason="extra `peers` is not installed")
    with xarray.open_dataset(archive, group="entry/daq", engine="h5netcdf", phony_dims="access") as data:
        force = data["contact_force"]
        assert force.dims == ("time",)
        assert force.attrs["units"] == "N"
        assert force.attrs["kind"] == "force"
        assert force.attrs["long_name"] == "contact_force [N]"
        assert data["time"].attrs["units"] == "s"
        assert float(force.sel(time=0.2)) == pytest.approx(20.0)
        assert data["encoder_position"].attrs["units"] == "mm"
        assert data["force"].dims == ("time", "force_channel")
        assert data["force"].sizes == {"time": 350, "force_channel": 2}
        assert [name.decode() for name in data["force_channel"].values] == ["contact_force", "side_force"]


def test_silx_finds_the_default_plot_with_its_axis_and_units(archive: Path) -> None:
    silx_io = pytest.importorskip("silx.io", reason="extra `peers` is not installed")
    from silx.io import nxdata

    with silx_io.open(str(archive)) as file:
        plot = nxdata.get_default(file, validate=True)
        assert plot is not None
        assert plot.is_valid
        assert plot.signal_dataset_name == "contact_force"
        assert plot.signal_name == "contact_force [N]"
        assert plot.signal.shape == (350,)
        assert plot.signal[10] == pytest.approx(1.0)
        assert plot.axes_dataset_names == ["time"]
        assert plot.axes_names == ["time from the start [s]"]
        assert plot.axes[0].attrs["units"] == "s"
        assert plot.axes[0][10] == pytest.approx(0.01)
        assert plot.auxiliary_signals_dataset_names == ["side_force", "encoder_position"]
        assert plot.auxiliary_signals_names == ["side_force [N]", "encoder_position [mm]"]
