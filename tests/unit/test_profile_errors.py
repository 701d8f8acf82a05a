"""Bad profiles: each is refused with the file, the key path, what was given, what was expected and a near miss."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bench.errors import ProfileError
from bench.profile import find_profile, load_profile, load_rig, load_specimen
from bench.profile.load import parse_profile

RIG = "rigs/indenter.toml"
CELL = "rigs/indenter_load_cell.toml"
SPECIMEN = "specimens/liver_phantom_a.toml"
PROCEDURE = "procedures/indentation.toml"
CRITERIA = "acceptance/contact_model.toml"
TWIN = "twins/indenter.toml"
FAULT = '[[faults]]\nname = "{name}"\nat = "3 s"\nparameters = {{ {parameters} }}\n\n[frame]'


def problems(repository: Path, file: str, *edits: tuple[str, str]) -> list[str]:
    """What the shipped ``file`` is told after some texts in it were replaced, without the file's name."""
    text = (repository / "profiles" / file).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, f"{old!r} is not in {file}"
        text = text.replace(old, new, 1)
    profile, found = parse_profile(text, Path("lab.toml"))
    assert (profile is None) == bool(found)
    told = [str(problem) for problem in found]
    assert all(line.startswith("lab.toml: ") for line in told)
    return [line.removeprefix("lab.toml: ") for line in told]


BAD_QUANTITIES = [
    ('"2 mm"', "press_speed: given \"2 mm\", expected a speed such as '2 mm/s'. '2 mm' is a length"),
    ("2.0", "press_speed: given 2.0, expected a speed such as '2 mm/s'. 2.0 has no unit"),
    ('"2"', "press_speed: given \"2\", expected a speed such as '2 mm/s'. '2' is a bare number without a unit"),
    (
        '"2,5 mm/s"',
        "press_speed: given \"2,5 mm/s\", expected a speed such as '2 mm/s'. "
        "'2,5 mm/s' has a decimal comma. Write '2.5 mm/s' with a decimal point",
    ),
    (
        '"nan mm/s"',
        "press_speed: given \"nan mm/s\", expected a speed such as '2 mm/s'. 'nan mm/s' is not a finite number",
    ),
    (
        '"2 mm/sec"',
        "press_speed: given \"2 mm/sec\", expected a speed such as '2 mm/s'. "
        "'mm/sec' in '2 mm/sec' is not a unit the bench knows. Write mm/s",
    ),
    ('"-2 mm/s"', 'press_speed: given "-2 mm/s", expected a speed above 0'),
    ('"0 mm/s"', 'press_speed: given "0 mm/s", expected a speed above 0'),
    ("true", "press_speed: given true, expected a speed such as '2 mm/s'"),
    ('["2 mm/s"]', "press_speed: given a list of 1, expected a speed such as '2 mm/s'"),
]


@pytest.mark.parametrize(("given", "said"), BAD_QUANTITIES)
def test_a_bad_quantity_is_told_with_what_was_due(repository: Path, given: str, said: str) -> None:
    assert problems(repository, PROCEDURE, ('press_speed = "2 mm/s"', f"press_speed = {given}")) == [said]


def test_newton_metres_without_a_dot_are_told_how_to_write_them(repository: Path) -> None:
    said = (
        "safety.torque_limit: given \"0.4 Nm\", expected a torque such as '0.2 N.m'. "
        "'Nm' in '0.4 Nm' is not a unit the bench knows. Write N.m"
    )
    assert problems(repository, RIG, ('"0.4 N.m"', '"0.4 Nm"')) == [said]


def test_a_misspelt_key_is_told_with_the_key_it_resembles(repository: Path) -> None:
    missing, unknown = problems(repository, PROCEDURE, ("press_speed", "pres_speed"))
    assert missing == "press_speed: given nothing, expected a speed such as '2 mm/s'. The key is missing"
    assert unknown.startswith('pres_speed: given the unknown key "pres_speed", expected one of schema, name, ')
    assert unknown.endswith('Did you mean "press_speed"?')


def test_a_misspelt_table_is_told_with_the_table_it_resembles(repository: Path) -> None:
    missing, unknown = problems(repository, RIG, ("[frame]", "[fram]"))
    assert missing == "frame: given nothing, expected a table. The key is missing"
    assert unknown.endswith('Did you mean "frame"?')


WRONG_LINES = [
    line
    for file in sorted(Path(__file__).parent.glob("wrong_profile_lines*.toml"))
    for line in tomllib.loads(file.read_text(encoding="utf-8"))["line"]
]


@pytest.mark.parametrize("line", WRONG_LINES, ids=lambda line: line["said"].partition(":")[0])
def test_a_wrong_line_is_told_with_its_place_and_what_was_expected(repository: Path, line: dict[str, str]) -> None:
    assert problems(repository, line["file"], (line["old"], line["new"])) == [line["said"]]


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("estop_presed", "", 'Did you mean "estop_pressed"?'),
        ("stage_stall", 'rate = "1 N/s"', "expected no parameters for the fault stage_stall"),
        ("broken_wire", "gauge = true", "faults[0].parameters.gauge: given true, expected a whole number"),
        ("wrong_phantom", "specimen = 3", "faults[0].parameters.specimen: given 3, expected a text"),
        ("late_reply", 'dely = "1 s"', 'Did you mean "delay"?'),
    ],
)
def test_a_fault_of_the_twin_takes_its_own_parameters_only(
    repository: Path, name: str, parameters: str, said: str
) -> None:
    (told,) = problems(repository, TWIN, ("[frame]", FAULT.format(name=name, parameters=parameters)))
    assert said in told


def test_every_problem_of_a_file_is_told_at_once_also_between_tables_that_are_right(repository: Path) -> None:
    told = problems(
        repository,
        RIG,
        ('travel_max = "60 mm"', 'travel_max = "60 mmm"'),
        ("stiffness", "siffness"),
        ('force_limit = "20 N"', 'force_limit = "100 N"'),
        ('"Dev1/ai0"', '"Dev1/ai1"'),
    )
    assert [line.partition(":")[0] for line in told] == [
        "stage.travel_max",
        "frame.stiffness",
        "frame.siffness",
        "force_sensor.channels[1]",
        "safety.force_limit",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('schema = "bench.rig/1"', "", "schema: given nothing, expected one of bench.rig/1, bench.specimen/1"),
        ("bench.rig/1", "bench.rigs/1", 'schema: given "bench.rigs/1", expected one of'),
        ('"bench.rig/1"', '["bench.rig/1"]', "schema: given a list of 1, expected one of"),
        ("bench.rig/1", "bench.import/1", "Import mappings are read by `bench import`"),
    ],
)
def test_a_file_must_say_which_schema_it_follows(repository: Path, old: str, new: str, said: str) -> None:
    (told,) = problems(repository, RIG, (old, new))
    assert said in told


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('max_speed = "20 mm/s"', "max_speed = 20 mm/s", "line 18: given `max_speed = 20 mm/s`, expected valid TOML"),
        ("baud = 115200", "baud = 115200\nbaud = 9600", "line 11: given `baud = 9600`, expected valid TOML"),
        ("[stage]", "[stage", "line 7: given `[stage`, expected valid TOML"),
    ],
)
def test_a_toml_syntax_error_is_told_with_its_line(repository: Path, old: str, new: str, said: str) -> None:
    (told,) = problems(repository, RIG, (old, new))
    assert told.startswith(said)


def test_loading_raises_one_error_that_holds_every_problem(repository: Path, tmp_path: Path) -> None:
    text = (repository / "profiles" / RIG).read_text(encoding="utf-8")
    file = tmp_path / "bad.toml"
    file.write_text(text.replace('"20 mm/s"', '"20 mm"').replace("sign = -1", "sign = 0"), encoding="utf-8")
    with pytest.raises(ProfileError, match="the profile has 2 problems") as caught:
        load_rig(file)
    assert [problem.key for problem in caught.value.problems] == ["stage.max_speed", "force_sensor.sign"]  # type: ignore[attr-defined]
    assert "stage.max_speed: given \"20 mm\", expected a speed such as '2 mm/s'. '20 mm' is a length" in str(
        caught.value
    )


def test_a_profile_of_another_kind_is_refused(repository: Path) -> None:
    with pytest.raises(ProfileError, match=r'schema: given "bench.rig/1", expected "bench.specimen/1"'):
        load_specimen(repository / "profiles" / RIG)


def test_a_missing_file_is_told_with_its_neighbour(repository: Path) -> None:
    with pytest.raises(ProfileError, match=r'given no such file, expected a profile\. Did you mean "indenter.toml"'):
        load_profile(repository / "profiles" / "rigs" / "indentor.toml")


def test_a_file_in_another_encoding_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes('schema = "bench.rig/1" # µ'.encode("latin-1"))
    with pytest.raises(ProfileError, match="byte 25 that is not UTF-8, expected UTF-8 text"):
        load_profile(file)
    file.write_bytes(b"\x89HDF\r\n\x1a\n\0\0\0\0")
    with pytest.raises(ProfileError, match=r"expected UTF-8 text\. It is no text file"):
        load_profile(file)


def test_an_empty_folder_of_profiles_says_that_nothing_is_added_to_it(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r'no profile "indentation"\. Known: none\. .* used alone: copy what is missing'
    ):
        find_profile("procedures", "indentation", tmp_path)


def test_a_text_before_its_remedy_ends_in_one_full_stop() -> None:
    assert str(ProfileError("Press less deep.", remedy="The record is kept")) == "Press less deep. The record is kept"
