"""An NI-DAQmx device as its driver shows it: tasks, reservations, clocks, events. Knows no transport.

The gRPC service in :mod:`bench.twin.devices.nidaqmx_grpc` calls this with the world's lock held. Sample k of a clocked
task is what the signal bus recorded at tick ``start + k * stride``; encoders clocked by ``/Dev1/ai/SampleClock`` share
the edges of the analog task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.errors import TwinError
from bench.twin.devices.nidaqmx_channels import AnalogIn, Encoder
from bench.twin.devices.nidaqmx_clock import SampleClock
from bench.twin.devices.nidaqmx_create import Creator, Settings
from bench.twin.devices.nidaqmx_task import Reading, State, Task, Timing
from bench.twin.devices.nidaqmx_values import Action, Code, DaqmxError, Kind, Mode
from bench.twin.interfaces import Participant, SignalBus, World

DRIVER_VERSION = (24, 8, 0)
SESSION_AUTO, SESSION_NEW, SESSION_ATTACH = 0, 1, 2


class SessionError(Exception):
    """A session name is taken, or nobody has it; ``taken`` says which."""

    def __init__(self, text: str, *, taken: bool) -> None:
        super().__init__(text)
        self.taken = taken


@dataclass
class _Event:
    """A registered every-N-samples or done event."""

    every: int  # 0: done
    fire: Callable[[], None]
    next: int = 0


class NiDaqDevice:
    """The simulated device.

    Parameters
    ----------
    world, bus : World, SignalBus
        The clock, and what the terminals carry.
    settings : Settings
        What the device is called, its converter and its seed.
    """

    def __init__(self, world: World, bus: SignalBus, settings: Settings | None = None) -> None:
        self.world = world
        self.bus = bus
        self.settings = settings or Settings()
        self.create = Creator(self.settings, bus.channels())
        self.tasks: dict[str, Task] = {}
        self.unsupported: dict[str, int] = {}  # calls answered UNIMPLEMENTED, for the twin's report
        self._held: dict[str, Task] = {}
        self._events: dict[str, list[_Event]] = {}
        self._sessions = 0
        self._removed = False

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open_session(self, name: str, behaviour: int = SESSION_AUTO) -> tuple[Task, bool]:
        """Return (task, whether it is new). Sessions live until they are cleared or the device is reset."""
        if name and name in self.tasks:
            if behaviour == SESSION_NEW:
                raise SessionError(f"Cannot initialize '{name}' when a session already exists.", taken=True)
            return self.tasks[name], False
        if behaviour == SESSION_ATTACH:
            raise SessionError(f"Cannot attach to '{name}' because a session has not been initialized.", taken=False)
        session = name or f"session-{self._sessions}"
        task = Task(name or f"_unnamedTask<{self._sessions:X}>", session, self.world, self.bus)
        self._sessions += 1
        self.tasks[session] = task
        return task, True

    def task(self, session: str) -> Task:
        """Return the task of a session."""
        task = self.tasks.get(session)
        if task is None:
            raise DaqmxError(Code.INVALID_TASK, f"Session: {session}")
        return task

    def clear(self, task: Task) -> None:
        """End a task and forget it."""
        self._halt(task)
        self._release(task)
        task.gone = True
        self.tasks.pop(task.session, None)
        self._events.pop(task.session, None)

    def reset_device(self, name: str) -> None:
        """Abort and forget every task; outputs return to their power-up state: lines low, voltages zero."""
        if name.lower() != self.settings.device.lower():
            raise DaqmxError(Code.NO_SUCH_DEVICE, f"Device Specified: {name}")
        self.reachable()
        for task in list(self.tasks.values()):
            self.clear(task)
        for terminal in self.bus.channels():
            if terminal.startswith("port") and self.bus.channels()[terminal] != "digital_in":
                self.bus.set_digital(terminal, False)
            elif terminal.startswith("ao"):
                self.bus.set_analog(terminal, 0.0)

    def reachable(self) -> None:
        """Raise when the device was unplugged."""
        if self._removed:
            raise DaqmxError(Code.GONE, f"Device Specified: {self.settings.device}")

    # -- states -------------------------------------------------------------------------------------------------------

    def configure_timing(self, task: Task, rate: float, source: str, mode: int, samples: int) -> None:
        """Clock a task. The rate is coerced to the next one the device can do, as a real divider does."""
        if task.state is State.RUNNING:
            raise task.error(Code.RUNNING)
        if not task.channels:
            raise task.error(Code.NO_CHANNELS)
        if task.kind not in (Kind.AI, Kind.CI):
            raise task.error(Code.INVALID_VALUE, "clocked digital lines and outputs are not simulated: write on demand")
        tick_rate = 1e9 / self.world.tick_ns
        if not 0 < rate <= tick_rate * (1 + 1e-9):
            raise task.error(Code.RATE, f"Requested Value: {rate:g}\nMaximum Value: {tick_rate:g}")
        stride = max(1, int(tick_rate / rate * (1 + 1e-12)))
        if samples < 1:
            raise task.error(Code.INVALID_VALUE, f"{samples} samples per channel")
        task.timing = Timing(Mode(mode), tick_rate / stride, stride, samples, source)
        task.state = State.UNVERIFIED

    def control(self, task: Task, action: int) -> None:
        """Move a task to another state."""
        if action == Action.START:
            self.start(task)
        elif action == Action.STOP:
            self.stop(task)
        elif action == Action.ABORT:
            self._halt(task)
            self._release(task)
            task.state = State.UNVERIFIED
        elif action == Action.UNRESERVE:
            if task.state is State.RUNNING:
                raise task.error(Code.RUNNING)
            self._release(task)
            task.state = min(task.state, State.VERIFIED)
        else:
            wanted = {Action.VERIFY: State.VERIFIED, Action.RESERVE: State.RESERVED, Action.COMMIT: State.COMMITTED}
            if task.state < wanted[Action(action)]:
                self._raise_to(task, wanted[Action(action)])
            task.rests_at = max(State.VERIFIED, wanted[Action(action)])

    def start(self, task: Task, *, implicit: bool = False) -> None:
        """Start a task: it verifies, reserves, and its clock begins at the next tick."""
        if task.state is State.RUNNING:
            raise task.error(Code.RUNNING)
        self._raise_to(task, State.COMMITTED)
        tick = -(-self.world.now_ns // self.world.tick_ns)
        task.state, task.implicit = State.RUNNING, implicit
        task.clock, task.position, task.overrun = SampleClock(), 0, False
        for channel in task.channels:
            if isinstance(channel, Encoder):
                channel.arm(self.bus, task.now_tick)
        if task.timing.clocked:
            self._start_clock(task, tick)
        for event in self._events.get(task.session, []):
            event.next = event.every
            self._schedule(task, event)

    def stop(self, task: Task) -> int:
        """Stop a task; returns a warning when a finite one was not done."""
        early = task.timing.mode is Mode.FINITE and task.state is State.RUNNING and not task.done()
        self._halt(task)
        if task.rests_at < State.RESERVED:
            self._release(task)
        return int(Code.STOPPED_EARLY) if early else 0

    def _raise_to(self, task: Task, state: State) -> None:
        self.reachable()
        if not task.channels:
            raise task.error(Code.NO_CHANNELS)
        for channel in task.channels:
            channel.verify()
        if task.kind is Kind.CI and task.timing.clocked and not self._clock_source(task):
            raise task.error(Code.NO_CLOCK_SOURCE, f"{task.channels[0].physical} has no clock of its own")
        if state >= State.RESERVED:
            for channel in task.channels:
                for resource in channel.resources():
                    holder = self._held.setdefault(resource, task)
                    if holder is not task:
                        self._release(task)
                        raise task.error(
                            Code.RESERVED, f"Device: {self.settings.device}\n\n{resource} is held by task {holder.name}"
                        )
        task.state = max(task.state, state)

    def _release(self, task: Task) -> None:
        for resource in [name for name, holder in self._held.items() if holder is task]:
            del self._held[resource]
        task.state = min(task.state, State.VERIFIED)

    def _halt(self, task: Task) -> None:
        if task.state is not State.RUNNING:
            return
        now_tick = task.now_tick
        task.clock.stop(now_tick)
        if task.kind is Kind.AI:
            for other in self._followers():
                other.clock.stop(now_tick)
        task.state = max(task.rests_at, State.VERIFIED)
        task.epoch += 1

    # -- clocks -------------------------------------------------------------------------------------------------------

    def _clock_source(self, task: Task) -> str:
        source = task.timing.source
        if source in ("", "OnboardClock") or source.endswith("/OnboardClock"):
            return ""
        if source.lower().lstrip("/") != f"{self.settings.device}/ai/SampleClock".lower():
            raise task.error(Code.NO_SUCH_TERMINAL, f"Source: {source}")
        return source

    def _followers(self) -> list[Task]:
        """The running tasks whose clock is the analog one."""
        return [t for t in self.tasks.values() if t.state is State.RUNNING and t.kind is Kind.CI and t.timing.clocked]

    def _start_clock(self, task: Task, tick: int) -> None:
        if task.kind is Kind.AI:
            if self._clock_source(task):
                raise task.error(Code.NO_SUCH_TERMINAL, "an analog task cannot be clocked by itself")
            count = task.timing.samples if task.timing.mode is Mode.FINITE else None
            task.clock.start(tick, task.timing.stride, count)
            for other in self._followers():
                other.clock.start(tick, task.timing.stride, count)
                for event in self._events.get(other.session, []):
                    self._schedule(other, event)
            return
        leader = next(
            (t for t in self.tasks.values() if t.kind is Kind.AI and t.state is State.RUNNING and t.timing.clocked),
            None,
        )
        edge = leader.clock.next_edge(tick) if leader is not None else None
        if leader is not None and edge is not None:
            task.clock.start(*edge, leader.clock.remaining(edge[0]))

    # -- reading and writing ------------------------------------------------------------------------------------------

    def read(self, task: Task, participant: Participant, samples: int, timeout_s: float) -> Reading:
        """Read raw integers; starts the task when it is not, and stops it again when that was a finite one."""
        self.reachable()
        if not task.channels:
            raise task.error(Code.READ_WITHOUT_INPUTS)
        if not all(isinstance(channel, AnalogIn | Encoder) for channel in task.channels):
            raise task.error(Code.READ_TYPE)
        if task.state is not State.RUNNING:
            self.start(task, implicit=True)
        reading = task.read(participant, samples, timeout_s)
        self.reachable()
        over = not task.timing.clocked or (task.timing.mode is Mode.FINITE and task.position >= task.timing.samples)
        if task.implicit and over:
            self.stop(task)
        return reading

    def on_demand(self, task: Task, auto_start: bool, action: Callable[[], None]) -> None:
        """Run ``action`` on a started task; an implicit start ends with it, so the line is free for others again."""
        self.reachable()
        started = task.state is State.RUNNING
        if not started and not auto_start:
            raise task.error(Code.INVALID_VALUE, "the task is not started, and the write is not to start it")
        if not started:
            self.start(task, implicit=True)
        try:
            action()
        finally:
            if not started:
                self.stop(task)

    # -- events -------------------------------------------------------------------------------------------------------

    def register_event(self, task: Task, every: int, fire: Callable[[], None]) -> Callable[[], None]:
        """Call ``fire`` each ``every`` samples (0: when the task is done); returns what takes it back."""
        if task.state is State.RUNNING:
            raise task.error(Code.EVENT_WHILE_RUNNING)
        if every < 0:
            raise task.error(Code.EVENT_INTERVAL)
        if every and not task.timing.clocked:
            raise task.error(Code.EVENT_NOT_BUFFERED)
        events = self._events.setdefault(task.session, [])
        if any(bool(event.every) == bool(every) for event in events):
            raise task.error(Code.EVENT_TWICE)
        event = _Event(every, fire)
        events.append(event)

        def withdraw() -> None:
            if event in events:
                events.remove(event)

        return withdraw

    def _schedule(self, task: Task, event: _Event) -> None:
        """Set the world's timer for the next time this event fires."""
        count = event.next if event.every else task.timing.samples if task.timing.mode is Mode.FINITE else 0
        tick = task.clock.tick_of(count - 1) if count else None
        if tick is None:
            return
        epoch = task.epoch

        def due() -> None:
            if task.epoch != epoch or event not in self._events.get(task.session, []):
                return
            event.fire()
            if event.every:
                event.next += event.every
                self._schedule(task, event)

        self.world.at(tick * self.world.tick_ns, due)

    # -- faults -------------------------------------------------------------------------------------------------------

    FAULTS = ("dropped_samples", "buffer_overwrite", "daq_unplugged")

    def fault(self, name: str, **parameters: float) -> None:
        """Bring a fault about now.

        ``dropped_samples(count)``: the running analog task silently loses edges; the encoders keep theirs.
        ``buffer_overwrite``: the next read finds its samples overwritten. ``daq_unplugged``: nothing answers any more.
        """
        running = [task for task in self.tasks.values() if task.state is State.RUNNING and task.timing.clocked]
        if name == "dropped_samples":
            for task in running:
                if task.kind is Kind.AI:
                    task.clock.skip(task.now_tick, int(parameters.get("count", 1000)))
        elif name == "buffer_overwrite":
            for task in running:
                task.overrun = True
        elif name == "daq_unplugged":
            self._removed = True
            for task in list(self.tasks.values()):
                self._halt(task)
        else:
            raise TwinError(f"the DAQ device has no fault {name!r}", remedy=f"It has {', '.join(self.FAULTS)}")

    def plug_in(self) -> None:
        """End the fault ``daq_unplugged``."""
        self._removed = False
