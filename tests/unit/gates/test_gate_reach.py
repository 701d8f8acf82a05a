"""From where an actuator can be reached, and that no way there passes a gate by.

What makes a rig move or gives it power are a handful of methods of drivers and output lines. Two things are shown on
the syntax trees of all of the bench:

- whoever touches one of those methods of a *driver* is a gate; anybody else touches the gate's methods. What cannot be
  told counts as a driver. So the last step of any way to an actuator is a gate's (what a gate refuses is shown in
  the tests of each gate);
- drivers are made in one place, handed to the gates by whoever opens a station, and no gate's own handle is read from
  outside of it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from bench.procedures.perform import PROCEDURES

Program = Any

#: What moves, drives or gives power, or hands out what does, by the type it is asked of.
RAW = {
    "LinearStage": {"home", "start_move", "arm_travel_limits"},
    "JointDrive": {"command_torque", "clear_fault", "arm_watchdog"},
    "ArmDrives": {"write_currents", "torque_enable", "clear_faults", "arm_watchdog"},
    "DigitalOutput": {"write"},
    "AnalogOutput": {"write"},
    "Daq": {"digital_output", "analog_output", "reset"},
}
#: The drivers that are such a thing.
DRIVERS = {
    "ZaberAsciiStage": "LinearStage",
    "MoteusDrive": "JointDrive",
    "DynamixelBus": "ArmDrives",
    "NiDaq": "Daq",
    "NiDigitalOutput": "DigitalOutput",
    "NiAnalogOutput": "AnalogOutput",
}
VERBS = {verb for verbs in RAW.values() for verb in verbs} - {"write", "reset"}
#: The only ones that may use them.
GATES = {"GatedStage", "GatedDrive", "GatedArm", "Interlock", "GuardedDaq"}
#: Stations are given the drivers, to put them behind the gates; they keep none.
STATIONS = {"Station", "IndenterStation", "JointStation", "ArmStation"}
#: Who may make drivers, who may ask for them, and why.
MAKERS = {"open_stage", "open_drive", "open_arm_drives", "open_daq"}
OPENERS = {
    "bench.station_indenter.open_indenter": "hands them to the station, which puts them behind the gates",
    "bench.station_joint.open_joint": "the same",
    "bench.station_arm.open_arm": "the same",
}
#: Who holds drivers to take power and motion away, in a process of its own: what it may ask of them beside a stop.
HANDS = {"RigHands": {"digital_output", "reset"}}
#: What a gate may ask of itself before it commands.
CHECKS = {"_check_ready", "check", "refuse_unless_ready", "_refuse", "_refuse_reserved", "narrowed"}
#: Methods of gates that touch a driver without a check, and why that drives nothing.
UNCHECKED = {
    "GatedArm._hold": "holds the weight while the brakes close: the way to the safe state, within the torque limits",
    "GatedArm.arm_watchdog": "sets after which silence the servos stop by themselves",
    "GatedArm.close_brakes": "drives a line low",
    "GatedDrive.__init__": "binds the method that torque() calls, after its checks",
    "GatedDrive.arm_watchdog": "sets after which silence the drive stops by itself",
    "Interlock.drop": "drives a line low",
}
VERBS_OF_DRIVERS = {f"{owner}.{verb}" for owner, verbs in RAW.items() for verb in verbs}
#: Rooms below the gates, or without any handle on an instrument: there a file may be written to.
BELOW = ("bench.instruments",)
HANDLES = ("bench.safety", "bench.station", "bench.procedures", "bench.cli")


def raw_type(name: str | None) -> str | None:
    return name if name in RAW else DRIVERS.get(name or "")


def ways_past_the_gates(program: Program, only: str | None = None) -> list[str]:
    """Return every place that could move a rig without asking a gate, of one module or of all."""
    modules = [only] if only else [name for name in program.trees if not name.startswith(BELOW)]
    found: list[str] = []
    for place, function in program.places():
        if place.module not in modules:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute):
                found += [f"{place.name}:{node.lineno}: {why}" for why in _touches(program, node, place)]
            elif isinstance(node, ast.Call):
                found += [f"{place.name}:{node.lineno}: {why}" for why in _makes(program, node, place)]
    return found + list(_kept(program, modules))


def _kept(program: Program, modules: Collection[str]) -> Iterator[str]:
    for cls in program.classes.values():
        if cls.module in modules and cls.name not in GATES and cls.name not in HANDS:
            for name, kind in program.attribute_types(cls):
                if raw_type(kind):
                    yield f"{cls.module}.{cls.name}.{name} keeps a {kind}"


def _touches(program: Program, node: ast.Attribute, place: Any) -> Iterator[str]:
    owner = program.type_of(node.value, place)
    if node.attr.startswith("_") and owner in GATES and place.owner != owner:
        yield f"reads {owner}.{node.attr}, which is the gate's own"
    if place.owner in GATES:
        return
    raw = raw_type(owner)
    if raw and node.attr in HANDS.get(place.owner or "", ()):
        return
    if raw and node.attr in RAW[raw] and not _lowers(node, place) and not _opens(node, place):
        yield f"asks a {raw} for {node.attr}, past the gates"
    if owner is None and node.attr in VERBS:
        yield f"{ast.unparse(node)}: cannot tell whether that is a gate"
    if (
        owner is None
        and node.attr == "write"
        and not program.is_module(node.value, place)
        and place.module.startswith(HANDLES)
        and not _lowers(node, place)
    ):
        yield f"{ast.unparse(node)}: cannot tell whether that is an output line"


def _lowers(node: ast.Attribute, place: Any) -> bool:
    """Whether the only thing done with it is to drive a line low."""
    return any(
        isinstance(call, ast.Call)
        and call.func is node
        and [isinstance(a, ast.Constant) and a.value is False for a in call.args] == [True]
        for call in ast.walk(place.function)
    )


def _opens(node: ast.Attribute, place: Any) -> bool:
    return node.attr == "digital_output" and place.name in OPENERS


def _makes(program: Program, call: ast.Call, place: Any) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in DRIVERS and place.function.name not in MAKERS:
        yield f"makes a driver, {name}"
    if name in MAKERS and place.name not in OPENERS and place.owner not in HANDS:
        yield f"asks for a driver, {name}"
    if name == "getattr" and len(call.args) > 1:
        asked = call.args[1].value if isinstance(call.args[1], ast.Constant) else None
        if asked in VERBS and place.owner not in GATES:
            yield f"asks by name for {asked}"


@pytest.fixture(scope="module")
def program(bench_sources: dict[str, str], program_of: Callable[[dict[str, str]], Program]) -> Program:
    return program_of(bench_sources)


def test_no_way_to_an_actuator_passes_a_gate_by(program: Program) -> None:
    assert ways_past_the_gates(program) == []


def test_every_driver_and_every_gate_is_known_here(program: Program) -> None:
    """A new instrument that moves something, or a new gate, has to be said here."""
    protocols = {name: cls for name, cls in program.classes.items() if cls.module == "bench.instruments.protocols"}
    moving = {name for name, cls in protocols.items() if set(cls.methods) & (VERBS | {"write"})}
    assert moving == set(RAW)
    drivers = {
        name
        for name, cls in program.classes.items()
        if cls.module.startswith("bench.instruments.") and set(cls.methods) & VERBS and name not in RAW
    }
    assert drivers | {"NiDigitalOutput", "NiAnalogOutput"} == set(DRIVERS)
    holders = {
        name
        for name, cls in program.classes.items()
        if not cls.module.startswith(BELOW) and any(raw_type(kind) for kind in _taken(cls))
    }
    assert holders == GATES | STATIONS


def _taken(cls: Any) -> Iterator[str | None]:
    made = cls.methods.get("__init__")
    for argument in (*made.args.args, *made.args.kwonlyargs) if made else ():
        yield ast.unparse(argument.annotation) if argument.annotation else None


def who_reaches_an_actuator(program: Program) -> dict[str, set[str]]:
    """Return for every function from which an actuator can be reached what it calls on the way there."""
    callers: dict[str, set[str]] = defaultdict(set)
    for place, function in program.places():
        own = f"{place.owner}.{function.name}" if place.owner else f"{place.module}.{function.name}"
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
                for target in program.targets(node, place):
                    callers[target].add(own)
    reached: dict[str, set[str]] = defaultdict(set)
    front = list(VERBS_OF_DRIVERS)
    while front:
        target = front.pop()
        for caller in callers[target]:
            if caller not in reached:
                front.append(caller)
            reached[caller].add(target)
    return reached


def test_the_public_callables_that_reach_an_actuator_are_found(program: Program) -> None:
    """Those people use are among them, else the look would have missed some; and each goes through a gate."""
    reached = who_reaches_an_actuator(program)
    public = {name for name in reached if not any(part.startswith("_") for part in name.split("."))}
    for procedure in PROCEDURES.values():
        assert f"{procedure.module}.run" in public
    assert {
        "GatedDrive.torque",
        "Recording.move",
        "JointRecording.run",
        "ArmRecording.run",
        "IndenterStation.make_ready",
        "JointStation.make_ready",
        "ArmStation.make_ready",
        "bench.station.open_station",
    } <= public
    direct = {name for name, through in reached.items() if through & VERBS_OF_DRIVERS}
    assert {name for name in direct if name.split(".")[0] not in GATES | set(HANDS)} == set(OPENERS)


def test_a_gate_looks_before_it_commands(program: Program) -> None:
    """Each method of a gate that touches a driver asks one of its checks before; the others are named, with why."""
    unchecked: set[str] = set()
    for place, function in program.places():
        if place.owner not in GATES:
            continue
        looks = [
            node.lineno
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHECKS
        ]
        for node in ast.walk(function):
            touches = isinstance(node, ast.Attribute) and set(program.targets(node, place)) & VERBS_OF_DRIVERS
            if touches and (not looks or min(looks) >= node.lineno):
                unchecked.add(f"{place.owner}.{function.name}")
    assert unchecked == set(UNCHECKED)


PLANTED = {
    "a gate's driver": "def f(station: IndenterStation) -> None:\n    station.stage._stage.start_move(1.0, 2.0)",
    "a gate's line": "def f(station: JointStation) -> None:\n    station.interlock._enable.write(True)",
    "a driver made": "def f() -> None:\n    MoteusDrive('port', clock=None).command_torque(1.0)",
    "a driver asked for": "def f(rig, addresses) -> None:\n    drive = open_drive(rig, addresses)",
    "a driver kept": "class Own:\n    def __init__(self, drives: ArmDrives) -> None:\n        self.drives = drives",
    "a driver kept, then used": "class Own:\n    def __init__(self, stage: LinearStage) -> None:\n"
    "        self._s = stage\n    def go(self) -> None:\n        self._s.home()",
    "a method bound": "def f(drive: JointDrive) -> None:\n    push = drive.command_torque",
    "a method by its name": "def f(thing) -> None:\n    getattr(thing, 'write_currents')([1.0])",
    "nobody knows of what": "def f(thing) -> None:\n    thing.start_move(1.0, 2.0)",
    "a line of the DAQ": "def f(daq: Daq) -> None:\n    daq.digital_output('Dev1/port0/line1').write(True)",
    "a line driven high": "def f(line: DigitalOutput) -> None:\n    line.write(True)",
    "a line driven by a number": "def f(line: DigitalOutput, level: bool) -> None:\n    line.write(level)",
}


@pytest.mark.parametrize("source", PLANTED.values(), ids=PLANTED.keys())
def test_a_way_past_the_gates_is_found(source: str, program: Program) -> None:
    assert ways_past_the_gates(program.plus("bench.procedures.planted", source), "bench.procedures.planted") != []


def test_a_line_driven_low_is_no_way_past_the_gates(program: Program) -> None:
    source = "def f(line: DigitalOutput) -> None:\n    line.write(False)"
    assert ways_past_the_gates(program.plus("bench.procedures.planted", source), "bench.procedures.planted") == []
