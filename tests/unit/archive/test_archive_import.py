"""Foreign files: what a good one becomes, and the sentence each known trap gets."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bench.archive import Run, import_files, verify_digest
from bench.archive.tables import header_unit, spelled
from bench.errors import ArchiveError

HEAD = """schema = "bench.import/1"
name = "lab"
format = "csv"
"""
TIME = """
[time]
source = "time_s"
"""
FORCE = """
[[columns]]
source = "force_N"
channel = "contact_force"
unit = "N"
kind = "force"
"""
GOOD = "time_s,force_N\n0.0,1.0\n0.1,2.0\n0.2,4.0\n"

Importer = Callable[..., Path]


@pytest.fixture
def importing(tmp_path: Path) -> Importer:
    """Return a function that imports one text by one mapping and returns the archive."""

    def run(text: str | bytes = GOOD, mapping: str = HEAD + TIME + FORCE, name: str = "curve.csv") -> Path:
        (tmp_path / "lab.toml").write_text(mapping, encoding="utf-8")
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        (path,) = import_files(tmp_path / "lab.toml", [file], tmp_path / "results")
        return path

    return run


def test_a_text_file_becomes_a_sealed_archive_of_backend_import(importing: Importer) -> None:
    path = importing()
    verify_digest(path)
    with Run.open(path) as run:
        assert (run.backend, run.simulated, run.status) == ("import", False, "COMPLETE")
        assert run.attributes["origin"] == "IMPORTED"
        force = run.get("contact_force", unit="mN", kind="force")
        assert force.values.tolist() == [1000.0, 2000.0, 4000.0]
        assert force.time_s.tolist() == [0.0, 0.1, 0.2]
        assert run.texts["imports/lab.toml"].startswith(HEAD)
        source = run.provenance["details"]["source"]
        assert (source["file"], source["samples"], len(source["sha256"])) == ("curve.csv", 3, 64)
        assert "time of the import" in run.provenance["details"]["start"]


def test_sign_scale_and_unit_of_storage_are_applied(importing: Importer) -> None:
    column = FORCE.replace('unit = "N"', 'unit = "mN"\nheader_unit = "N"\nscale = 1000.0\nsign = -1\nstore_as = "N"')
    with Run.open(importing(mapping=HEAD + TIME + column)) as run:
        assert run.channel("contact_force").unit == "N"
        assert run.channel("contact_force").values.tolist() == [-1.0, -2.0, -4.0]


def test_a_rate_stands_in_for_a_time_column(importing: Importer) -> None:
    with Run.open(importing(mapping=HEAD + '\n[time]\nrate = "20 Hz"\n' + FORCE)) as run:
        channel = run.channel("contact_force")
        assert channel.rate_hz == 20.0
        assert channel.time_s.tolist() == [0.0, 0.05, 0.1]


def test_unix_times_give_the_absolute_start(importing: Importer) -> None:
    text = GOOD.replace("\n0.", "\n1460000000.")
    with Run.open(importing(text, HEAD + TIME + 'origin = "unix"\n' + FORCE)) as run:
        assert run.started_utc == "2016-04-07T03:33:20.000000Z"
        assert run.channel("contact_force").time_s == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)


def test_the_start_is_read_from_the_name(importing: Importer) -> None:
    start = '\n[start]\npattern = \'(\\d{8}-\\d{4})\'\nformat = "%Y%m%d-%H%M"\nzone = "Europe/Paris"\n'
    path = importing(mapping=HEAD + TIME + FORCE + start, name="zug_20230701-1400.csv")
    assert path.name == "20230701T120000Z_zug_20230701-1400.h5"
    with pytest.raises(ArchiveError, match=r"no start in the name 'curve .*Correct \[start\]"):
        importing(mapping=HEAD + TIME + FORCE + start)


def test_a_decimal_comma_is_read_when_the_mapping_says_so(importing: Importer) -> None:
    layout = '\n[csv]\ndelimiter = ";"\ndecimal = ","\n'
    with Run.open(importing("time_s;force_N\n0,0;1,5\n0,1;2,5e1\n", HEAD + layout + TIME + FORCE)) as run:
        assert run.channel("contact_force").values.tolist() == [1.5, 25.0]


def test_french_headers_in_a_windows_encoding_are_read(importing: Importer) -> None:
    text = "Temps d'essai [s];Force développée [N]\n0,0;1,5\n0,1;2,5\n".encode("cp1252")
    layout = '\n[csv]\ndelimiter = ";"\ndecimal = ","\nencoding = "cp1252"\n'
    names = (TIME + FORCE).replace("time_s", "Temps d'essai [s]").replace("force_N", "Force développée [N]")
    with Run.open(importing(text, HEAD + layout + names)) as run:
        assert run.channel("contact_force").values.tolist() == [1.5, 2.5]
    with pytest.raises(ArchiveError, match=r'byte 25 is not utf-8.*encoding = "cp1252"'):
        importing(text, HEAD + layout.replace("cp1252", "utf-8") + names)


def test_a_byte_order_mark_is_no_part_of_the_first_header(importing: Importer) -> None:
    with Run.open(importing(b"\xef\xbb\xbf" + GOOD.encode())) as run:
        assert len(run.channel("contact_force").values) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "curve.csv: the file is empty"),
        ("time_s,force_N\n", "no row of numbers below row 1"),
        (GOOD.replace("force_N", "force_N,force_N"), "stands over columns 2 and 3"),
        (GOOD.replace("force_N", "forces_N"), r'no column \'force_N\'. Did you mean "forces_N"'),
        (GOOD.replace("2.0", '"2,0"'), r"row 3: '2,0' has a decimal comma. Say decimal = \",\""),
        (GOOD.replace("2.0", "1'234.5"), "thousands separators"),
        (GOOD.replace("2.0", "n/a"), "row 3: 'n/a' is not a number. If it stands for a missing value"),
        (GOOD.replace("2.0", "nan"), "row 3: 'nan' is not a number"),
        (GOOD.replace("2.0", ""), r"a value is missing, the first at sample 1. Say on_missing"),
        (GOOD.replace("2.0", "1.8e308"), r"row 3: '1.8e308' is a marker for a missing value.*missing = "),
        (GOOD.replace("2.0", "1.79769e+308"), "is a marker for a missing value"),
        (GOOD.replace("0.2,", "0.05,"), "time goes back at sample 2: 0.1 s, then 0.05 s"),
        (GOOD.replace("0.2,", "0.1,"), "time repeats at sample 2"),
        (GOOD.replace("0.2,", "nan,"), "'nan' is not a number"),
        (GOOD.replace(",", ";"), "the header has no ',' but a ';'.*delimiter"),
        (b"PK\x03\x04 not really", "a binary file of an unknown kind"),
        (b"\x89HDF\r\n\x1a\n" + bytes(600), r"the file is an HDF5 file, and the mapping 'lab' reads a text file"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), r"an old Excel workbook \(.xls\).*Save it as .xlsx"),
        (b"MATLAB 5.0 MAT-file" + bytes(600), r"the file is a MATLAB file"),
    ],
)
def test_each_trap_says_what_where_and_what_to_do(importing: Importer, text: str | bytes, message: str) -> None:
    with pytest.raises(ArchiveError, match=message) as caught:
        importing(text)
    assert caught.value.where
    assert caught.value.remedy


def test_a_trap_leaves_no_archive_behind(importing: Importer, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError):
        importing(GOOD.replace("0.2,", "0.05,"))
    assert not (tmp_path / "results").exists()


def test_duplicate_headers_are_told_apart_by_position(importing: Importer) -> None:
    text = "time_s,F [N],F [N]\n0,1,5\n1,2,6\n"
    with pytest.raises(ArchiveError, match=r"the header 'F \[N\]' stands over columns 2 and 3.*source = 1 \(from 0\)"):
        importing(text, HEAD + TIME + FORCE.replace("force_N", "F [N]"))
    with Run.open(importing(text, HEAD + TIME + FORCE.replace('"force_N"', "2"))) as run:
        assert run.channel("contact_force").values.tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("policy", "expected"), [("drop", [1.0, 4.0]), ("nan", [1.0, float("nan"), 4.0])], ids=["drop", "nan"]
)
def test_missing_values_follow_the_mapping(importing: Importer, policy: str, expected: list[float]) -> None:
    head = HEAD + f'missing = ["1.8e308", "---"]\non_missing = "{policy}"\n'
    for marker in ("1.8e308", "---", "", "1.797693134862e+308"):
        with Run.open(importing(GOOD.replace("2.0", marker), head + TIME + FORCE)) as run:
            assert np.array_equal(run.channel("contact_force").values, expected, equal_nan=True)
            assert run.provenance["details"]["source"]["dropped_samples"] == (policy == "drop")


def test_blank_lines_at_the_end_are_no_samples(importing: Importer) -> None:
    with Run.open(importing(GOOD + ",\n\n")) as run:
        assert len(run.channel("contact_force").values) == 3


@pytest.mark.parametrize("header", ["force_mN", "Force [mN]", "Force (mN)", "Force / mN", "Force mN"])
def test_a_unit_in_the_header_that_contradicts_the_mapping_is_an_error(importing: Importer, header: str) -> None:
    text, column = GOOD.replace("force_N", header), FORCE.replace("force_N", header)
    with pytest.raises(ArchiveError, match=r"the file states the unit 'mN' and the mapping 'N'. Correct the mapping"):
        importing(text, HEAD + TIME + column)
    with Run.open(importing(text, HEAD + TIME + column.replace('"N"', '"mN"'))) as run:
        assert run.get("contact_force", unit="N").values[2] == 0.004


def test_a_file_may_spell_its_unit_otherwise_when_the_mapping_says_how(importing: Importer) -> None:
    text = GOOD.replace("force_N", "force [Newton]")
    column = FORCE.replace("force_N", "force [Newton]")
    with pytest.raises(ArchiveError, match="states the unit 'Newton' and the mapping 'N'"):
        importing(text, HEAD + TIME + column)
    with Run.open(importing(text, HEAD + TIME + column + 'header_unit = "Newton"\n')) as run:
        assert run.channel("contact_force").unit == "N"


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("Force [mN]", "mN"),
        ("Force (N)", "N"),
        ("Force (raw)", ""),
        ("Weg / mm", "mm"),
        ("force_mN", "mN"),
        ("Temps d'essai s", "s"),
        ("Moment [N·m]", "N·m"),
        ("Joint_1", ""),
        ("displacement", ""),
    ],
)
def test_the_unit_in_a_header_is_found_where_it_usually_stands(header: str, unit: str) -> None:
    assert header_unit(header) == unit


@pytest.mark.parametrize(
    ("foreign", "ours"), [("N·m", "N.m"), ("Nm", "N.m"), ("µm", "um"), ("μm", "um"), ("mm/s²", "mm/s2"), ("°C", "degC")]
)
def test_plain_foreign_spellings_of_units_are_understood(foreign: str, ours: str) -> None:
    assert spelled(foreign) == ours


ARRAYS = HEAD.replace("csv", "npz") + TIME.replace("time_s", "t")


def test_arrays_of_an_npz_file_are_picked_by_name_and_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", t=np.arange(4) / 10, tau=np.arange(8.0).reshape(4, 2), word=np.array(["a"] * 4))
    columns = FORCE.replace("force_N", "tau").replace('"N"', '"N.m"').replace('"force"', '"torque"')
    (tmp_path / "lab.toml").write_text(ARRAYS + columns.replace("unit =", "index = 1\nunit ="))
    (path,) = import_files(tmp_path / "lab.toml", [tmp_path / "log.npz"], tmp_path / "results")
    with Run.open(path) as run:
        assert run.get("contact_force", kind="torque").values.tolist() == [1.0, 3.0, 5.0, 7.0]
    for change, message in (
        ("", r"it has shape \(4, 2\). Pick a column: index = 0 … 1"),
        ("index = 5\n", "no column 5"),
    ):
        (tmp_path / "lab.toml").write_text(ARRAYS + columns.replace("unit =", f"{change}unit ="))
        with pytest.raises(ArchiveError, match=message):
            import_files(tmp_path / "lab.toml", [tmp_path / "log.npz"], tmp_path / "results")
    (tmp_path / "lab.toml").write_text(ARRAYS + columns.replace('"tau"', '"word"'))
    with pytest.raises(ArchiveError, match="not numbers"):
        import_files(tmp_path / "lab.toml", [tmp_path / "log.npz"], tmp_path / "results")


def test_objects_in_an_npz_file_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", t=np.array([{}, []], dtype=object))
    (tmp_path / "lab.toml").write_text(ARRAYS + FORCE)
    with pytest.raises(ArchiveError, match=r"not a readable npz file.*no objects"):
        import_files(tmp_path / "lab.toml", [tmp_path / "log.npz"], tmp_path / "results")


def test_a_mat_file_gives_columns_and_scalars(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "log.mat", {"t": np.arange(3.0)[:, None], "f": np.array([[1], [2], [250]], np.uint8), "k": 35.0})
    scalar = '\n[[metadata]]\nname = "gain"\nsource = "k"\nunit = "N/V"\nkind = "force_sensitivity"\n'
    mapping = ARRAYS.replace("npz", "mat") + FORCE.replace("force_N", "f") + scalar
    (tmp_path / "lab.toml").write_text(mapping)
    (path,) = import_files(tmp_path / "lab.toml", [tmp_path / "log.mat"], tmp_path / "results")
    with Run.open(path) as run:
        assert run.channel("contact_force").values.tolist() == [1.0, 2.0, 250.0]
        gain = run.provenance["details"]["metadata"]["gain"]
        assert gain == {"value": 35.0, "unit": "N/V", "kind": "force_sensitivity"}
    with h5py.File(tmp_path / "v73.mat", "w", userblock_size=512) as file:
        file["t"] = [1.0]
    with pytest.raises(ArchiveError, match="version 7 or older"):
        import_files(tmp_path / "lab.toml", [tmp_path / "v73.mat"], tmp_path / "results")


SHEETS = (
    HEAD.replace("csv", "xlsx")
    + 'run_name = "{stem}_{sheet}"\n\n[xlsx]\nexclude = ["Paramètres", "*moyenne*"]\nheader_row = 1\nunit_row = 2\n'
    + TIME.replace("time_s", "Temps")
    + FORCE.replace("force_N", "Force")
    + '\n[[metadata]]\nname = "operator"\nsheet = "Paramètres"\nlabel = "Opérateur"\ncolumn = "B"\n'
)


@pytest.fixture
def workbook(tmp_path: Path) -> Callable[..., Path]:
    openpyxl = pytest.importorskip("openpyxl", reason="extra `excel` is not installed")

    def make(unit: str = "N", cell: Any = 2.5) -> Path:
        book = openpyxl.Workbook()
        book.active.title = "Paramètres"
        book.active.append(["Opérateur", "Ada"])
        for name in ("A1", "A2", "A_Moyenne"):
            sheet = book.create_sheet(name)
            for row in (["Temps", "Force"], ["s", unit], [0, 1.5], [0.1, cell]):
                sheet.append(row)
        book.save(tmp_path / "book.xlsx")
        return tmp_path / "book.xlsx"

    return make


def test_each_sheet_that_is_a_measurement_becomes_an_archive(workbook: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(SHEETS, encoding="utf-8")
    paths = import_files(tmp_path / "lab.toml", [workbook()], tmp_path / "results")
    assert [path.stem.partition("_")[2] for path in paths] == ["book_A1", "book_A2"]
    with Run.open(paths[1]) as run:
        assert run.channel("contact_force").values.tolist() == [1.5, 2.5]
        assert run.provenance["operator"] == "Ada"
        assert run.provenance["details"]["source"]["sheet"] == "A2"


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ({"unit": "mN"}, "sheet 'A1': column 2 'Force': the file states the unit 'mN' and the mapping 'N'"),
        ({"cell": "2,5"}, "row 4: '2,5' has a decimal comma"),
        ({"cell": True}, "row 4: 'True' is not a number"),
        ({"cell": None}, "a value is missing, the first at sample 1"),
    ],
)
def test_traps_in_sheets_name_the_sheet(
    workbook: Callable[..., Path], tmp_path: Path, sheet: dict[str, Any], message: str
) -> None:
    (tmp_path / "lab.toml").write_text(SHEETS, encoding="utf-8")
    with pytest.raises(ArchiveError, match=message):
        import_files(tmp_path / "lab.toml", [workbook(**sheet)], tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"*moyenne*"', '"A*"', "no sheet is a measurement.*Sheets here: Paramètres, A1"),
        ('"Opérateur"', '"Operator"', "no row with the label 'Operator'"),
        ('sheet = "Paramètres"', 'sheet = "Setup"', "no sheet 'Setup'.*Sheets here"),
    ],
)
def test_wrong_places_in_a_workbook_list_what_is_there(
    workbook: Callable[..., Path], tmp_path: Path, old: str, new: str, message: str
) -> None:
    (tmp_path / "lab.toml").write_text(SHEETS.replace(old, new), encoding="utf-8")
    with pytest.raises(ArchiveError, match=message):
        import_files(tmp_path / "lab.toml", [workbook()], tmp_path / "results")


def test_metadata_that_is_not_required_may_be_absent(workbook: Callable[..., Path], tmp_path: Path) -> None:
    absent = SHEETS.replace('"Opérateur"', '"Chef"') + "required = false\n"
    (tmp_path / "lab.toml").write_text(absent, encoding="utf-8")
    with Run.open(import_files(tmp_path / "lab.toml", [workbook()], tmp_path / "results")[0]) as run:
        assert run.provenance["operator"] == "not stated"
        assert run.provenance["details"]["metadata"]["operator"] == {"value": ""}


def test_without_openpyxl_the_extra_is_named(
    workbook: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, real = workbook(), builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "openpyxl":
            raise ImportError(name)
        return real(name, *rest)

    (tmp_path / "lab.toml").write_text(SHEETS, encoding="utf-8")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArchiveError, match=r"forcebench\[excel\]"):
        import_files(tmp_path / "lab.toml", [book], tmp_path / "results")


COMPANION = """
[companions]
motion = "{stem}_motion.csv"

[[columns]]
source = "position_mm"
file = "motion"
channel = "encoder_position"
unit = "mm"
kind = "length"
"""


def test_columns_of_a_companion_file_join_the_measurement(importing: Importer, tmp_path: Path) -> None:
    (tmp_path / "curve_motion.csv").write_text("position_mm\n5.0\n6.0\n7.0\n", encoding="utf-8")
    with Run.open(importing(mapping=HEAD + TIME + FORCE + COMPANION)) as run:
        assert run.get("encoder_position", unit="mm").values.tolist() == [5.0, 6.0, 7.0]
        assert run.get("contact_force", unit="N").values.tolist() == [1.0, 2.0, 4.0]
        source = run.provenance["details"]["source"]
        assert source["companions"]["motion"]["file"] == "curve_motion.csv"
        assert len(source["companions"]["motion"]["sha256"]) == 64


def test_a_companion_that_is_missing_or_of_another_length_is_named(importing: Importer, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"curve_motion\.csv"):
        importing(mapping=HEAD + TIME + FORCE + COMPANION)
    (tmp_path / "curve_motion.csv").write_text("position_mm\n5.0\n6.0\n", encoding="utf-8")
    with pytest.raises(ArchiveError, match="samples"):
        importing(mapping=HEAD + TIME + FORCE + COMPANION)
