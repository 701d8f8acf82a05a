"""Import mappings: each wrong key is named, the shipped ones are valid, and the guide's example does what it says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run, import_files
from bench.archive.mapping import check_mapping, load_mapping
from bench.errors import ProfileError

GOOD = """schema = "bench.import/1"
name = "lab"
format = "csv"

[time]
source = "time_s"

[[columns]]
source = "force_N"
channel = "contact_force"
unit = "N"
kind = "force"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('format = "csv"', 'format = "tdms"', 'format: given "tdms", expected'),
        ('unit = "N"', 'unit = "Nm"', r'columns\[0\].unit: given "Nm", expected a unit of a force'),
        ('kind = "force"', 'kind = "forse"', 'Did you mean "force"'),
        ('kind = "force"', 'kind = "torque"', 'given "N", expected a unit of a torque'),
        ('channel = "contact_force"', 'channel = "contact force"', r"columns\[0\].channel"),
        ('channel = "contact_force"', 'channel = "time"', "a name of its own for each channel"),
        ("[[columns]]", "[[colums]]", 'the unknown key "colums"'),
        ('source = "time_s"', 'source = "time_s"\nrate = "5 Hz"', "both of source and rate"),
        ('source = "time_s"', 'rate = "5 s"', "time.rate"),
        ('name = "lab"', 'name = "lab"\nrun_name = "{stem}_{shet}"', 'run_name: given "{shet}".*"sheet"'),
        ('unit = "N"', 'unit = "N"\nscale = 0.0', "a finite number that is not zero"),
        ('unit = "N"', 'unit = "N"\nindex = 1', "a table's columns are 1-D"),
        ("[time]", '[csv]\ndelimiter = ","\ndecimal = ","\n[time]', "another character than the delimiter"),
        ("[time]", "[xlsx]\nheader_row = 2\n[time]", r'a table \[xlsx\], expected none where format = "csv"'),
        ("[time]", '[start]\npattern = "x"\nformat = "%Y"\n[time]', "with a group in parentheses"),
        ("[time]", '[start]\npattern = "(x"\nformat = "%Y"\n[time]', "a regular expression"),
        ("[time]", '[start]\npattern = "(x)"\nformat = "%Y"\nzone = "Mars"\n[time]', "a time zone such as"),
        ('"bench.import/1"', '"bench.rig/1"', 'given "bench.rig/1", expected "bench.import/1"'),
    ],
)
def test_a_wrong_mapping_says_which_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(ProfileError, match=message) as caught:
        load_mapping(path)
    assert caught.value.problems


def test_a_mapping_is_found_by_its_file_name(tmp_path: Path) -> None:
    raw: dict[str, Any] = {
        "schema": "bench.import/1",
        "name": "lab",
        "format": "csv",
        "time": {"source": "t"},
        "columns": [{"source": "f", "channel": "f", "unit": "N", "kind": "force"}],
    }
    assert check_mapping(raw, tmp_path / "lab.toml") == []
    (problem,) = check_mapping(raw, tmp_path / "other.toml")
    assert "name of the file" in str(problem)


def test_every_shipped_mapping_is_valid(repository: Path) -> None:
    mappings = sorted((repository / "profiles" / "imports").glob("*.toml"))
    assert {"zwick_csv", "zwick_xlsx"} <= {load_mapping(path).name for path in mappings}


def test_the_example_of_the_guide_imports_the_file_it_describes(repository: Path, tmp_path: Path) -> None:
    guide = (repository / "docs" / "importing.md").read_text(encoding="utf-8")
    example = guide.partition("```toml\n")[2].partition("```")[0]
    mapping, file = tmp_path / "lab_csv.toml", tmp_path / "essai_20230701.csv"
    mapping.write_text(example, encoding="utf-8")
    file.write_text("Temps d'essai;Force standard;Allongement\ns;N;µm\n0,0;1,5;0\n0,1;2,5;1500\n", encoding="cp1252")
    assert check_mapping(tomllib.loads(example), mapping) == []
    (path,) = import_files(mapping, [file], tmp_path / "results")
    with Run.open(path) as run:
        assert run.get("contact_force", unit="N", kind="force").values.tolist() == [1.5, 2.5]
        assert run.channel("encoder_position").unit == "mm"
        assert run.channel("encoder_position").values.tolist() == [0.0, 1.5]
        assert run.started_utc == "2023-06-30T22:00:00.000000Z"
        assert run.provenance["operator"] == "A. Lovelace"
