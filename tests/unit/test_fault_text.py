"""A fault as the command line and a test's marker write it is read as one, or refused with what is due."""

from __future__ import annotations

import pytest

from bench.errors import TwinError
from bench.profile import parse_fault
from bench.twin.child import parser


@pytest.mark.parametrize(
    ("text", "name", "at_s", "parameters"),
    [
        ("estop_pressed", "estop_pressed", 0.0, {}),
        ("drifting_cell@20s,rate=5mN/s", "drifting_cell", 20.0, {"rate": "5 mN/s"}),
        ("drifting_cell@ 1.5 min , rate = -2.5e-1 N/s", "drifting_cell", 90.0, {"rate": "-2.5e-1 N/s"}),
        ("lost_counts@3,pulses=-20", "lost_counts", 3.0, {"pulses": -20}),
        ("device_unplugged@0.5 s,device=stage", "device_unplugged", 0.5, {"device": "stage"}),
    ],
)
def test_a_fault_is_read(text: str, name: str, at_s: float, parameters: dict[str, object]) -> None:
    assert parse_fault(text) == {"name": name, "at_s": at_s, "parameters": parameters}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no fault ''"),
        ("stuck_encodr@3s", "no fault 'stuck_encodr'. Did you mean \"stuck_encoder\""),
        ("estop_pressed@soon", "cannot come at 'soon'.*Give a time such as 20 s"),
        ("estop_pressed@-1s", "cannot come at -1 s"),
        ("estop_pressed@nan", "cannot come at nan s"),
        ("estop_pressed@2 mm", "cannot come at '2 mm'"),
        ("drifting_cell,rate", "'rate' is no parameter of a fault.*Write KEY=VALUE"),
        ("drifting_cell,rate=5 mm", r"parameters\.rate: given \"5 mm\", expected a force rate"),
        ("lost_counts,pulses=2.5", "expected a whole number"),
        ("lost_counts,pulse=2", 'given "pulse", expected pulses .*Did you mean "pulses"'),
    ],
)
def test_a_fault_written_wrongly_is_refused(text: str, said: str) -> None:
    with pytest.raises(TwinError, match=said):
        parse_fault(text)


def test_the_command_takes_faults_by_name_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    given = parser().parse_args(["indenter", "--fault", "estop_pressed@1s", "--fault", "lost_counts,pulses=3"])
    assert [(fault["name"], fault["at_s"]) for fault in given.fault] == [("estop_pressed", 1.0), ("lost_counts", 0.0)]
    with pytest.raises(SystemExit):
        parser().parse_args(["indenter", "--fault", "gremlins@1s"])
    assert "argument --fault: fault: there is no fault 'gremlins'" in capsys.readouterr().err
