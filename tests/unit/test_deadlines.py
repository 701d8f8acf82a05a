"""Nothing in the bench waits without a bound: every call that can block has a time-out, or its reason stands here.

What is looked for, in the syntax trees of ``bench`` and ``fixtures``: waits for threads, processes, queues, events,
locks, futures, sockets, pipes, serial ports, DAQ tasks and file locks, and loops that poll without comparing the time.
A time-out that is ``None``, negative or a parameter whose default is ``None`` is none.

``with lock:`` needs no time-out of its own: whoever holds a lock waits with a bound, since nobody may wait without one,
and what is excused below must not hold one.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import bench
import fixtures

#: Methods that block, by name → place of their time-out among the positional arguments, and its keyword.
TIMED = {
    "acquire": (1, "timeout"),
    "communicate": (1, "timeout"),
    "exception": (0, "timeout"),
    "get": (1, "timeout"),
    "join": (0, "timeout"),
    "put": (2, "timeout"),
    "result": (0, "timeout"),
    "wait": (0, "timeout"),
    "wait_for": (1, "timeout"),
    "wait_for_termination": (0, "timeout"),
    "wait_until_done": (0, "timeout"),
}
#: Functions that block, by full name → the same.
TIMED_FUNCTIONS = {
    "concurrent.futures.as_completed": (1, "timeout"),
    "concurrent.futures.wait": (1, "timeout"),
    "select.select": (3, "timeout"),
    "socket.create_connection": (1, "timeout"),
    "subprocess.call": (99, "timeout"),
    "subprocess.check_call": (99, "timeout"),
    "subprocess.check_output": (99, "timeout"),
    "subprocess.run": (99, "timeout"),
    "urllib.request.urlopen": (2, "timeout"),
}
#: Functions that block and take no time-out at all.
ENDLESS = frozenset(
    {"input", "os.popen", "os.read", "os.write", "os.system", "os.wait", "signal.pause", "signal.sigwait"}
)
#: Methods that block and take no time-out at all, whatever they are methods of.
ENDLESS_METHODS = frozenset({"readline", "serve_forever"})
#: Methods of a socket that block unless the socket has a time-out.
SOCKET = frozenset({"accept", "recv", "recv_into", "recvfrom", "recvmsg", "sendall"})
STREAMS = frozenset({"stdin", "stdout", "stderr"})
#: Methods of a DAQ task's readers and writers, by their beginning → place of the time-out. Without one they wait ten
#: seconds, longer than anybody means.
DAQ = {
    "read_many_sample": 2,
    "read_one_sample_one_line": 0,
    "read_one_sample": 1,
    "write_many_sample": 1,
    "write_one_sample": 1,
}
#: Functions that wait unless a flag among their arguments forbids it.
FLAGGED = {"fcntl.flock": ("LOCK_NB", "LOCK_UN"), "fcntl.lockf": ("LOCK_NB", "LOCK_UN"), "os.waitpid": ("WNOHANG",)}
POOLS = ("ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "ThreadPool")
#: Words of which one stands in the condition that ends a loop with a wait in it.
BOUNDS = frozenset({"deadline", "until", "end", "left", "limit", "parent", "closed"})


@dataclass(frozen=True)
class Finding:
    """A wait without a bound: where, in which function, what is called, and whether a lock is held meanwhile."""

    line: int
    scope: str
    name: str
    why: str
    locked: bool = False


@dataclass
class Facts:
    """What a module says of its names: aliases, sockets with a time-out, queues without an end; whether it opens files
    by their descriptors, so that those it reads are no pipes."""

    aliases: dict[str, str] = field(default_factory=dict)
    timed: set[str] = field(default_factory=set)
    roomy: set[str] = field(default_factory=set)
    pollers: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    files: bool = False


def dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    """``self._queue.get`` → the same; ``run`` after ``from subprocess import run`` → ``subprocess.run``."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "()")
    return ".".join(reversed(parts))


def last(name: str) -> str:
    return name.rpartition(".")[2]


def given(call: ast.Call, place: int, keyword: str) -> ast.expr | None:
    for word in call.keywords:
        if word.arg == keyword:
            return word.value
    return call.args[place] if place < len(call.args) else None


def bounded(value: ast.expr | None, optional: set[str]) -> bool:
    """Whether ``value`` is a time-out, whatever it comes to; ``optional`` are parameters that may be None."""
    match value:
        case None | ast.Constant(value=None) | ast.UnaryOp(op=ast.USub()):
            return False
        case ast.IfExp(body=one, orelse=other):
            return bounded(one, optional) and bounded(other, optional)
        case ast.BoolOp(values=values):
            return all(bounded(each, optional) for each in values)
        case ast.Name(id=name):
            return name not in optional and name != "WAIT_INFINITELY"
        case ast.Attribute(attr=name):
            return name != "WAIT_INFINITELY"
    return True


def is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def learn(tree: ast.Module) -> Facts:
    facts, nodes = Facts(), list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            facts.aliases |= {n.asname or n.name.partition(".")[0]: n.name if n.asname else n.name.partition(".")[0]
                              for n in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom):
            facts.aliases |= {n.asname or n.name: f"{node.module}.{n.name}" for n in node.names}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "settimeout":
            if bounded(node.args[0], set()):
                facts.timed.add(last(dotted(node.func.value, facts.aliases)))
        elif isinstance(node, ast.Call) and dotted(node.func, facts.aliases) == "os.open":
            facts.files = True
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            made, call = dotted(node.value.func, facts.aliases), node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {last(dotted(target, facts.aliases)) for target in targets}
            size = given(call, 0, "maxsize")
            if made == "queue.SimpleQueue" or (made == "queue.Queue" and size is None):
                facts.roomy |= names
            elif made in ("select.poll", "select.epoll") or made.startswith("selectors."):
                facts.pollers |= names
            elif last(made) in POOLS:
                facts.pools |= names
            elif made == "socket.create_connection" and bounded(given(call, 1, "timeout"), set()):
                facts.timed |= names
    return facts


class Looker(ast.NodeVisitor):
    """Collects the findings of a module."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.found: list[Finding] = []
        self.scope: list[str] = []
        self.optional: list[set[str]] = [set()]
        self.locks = 0
        self.called: set[int] = set()

    def say(self, node: ast.AST, name: str, why: str) -> None:
        self.found.append(Finding(getattr(node, "lineno", 0), ".".join(self.scope), name, why, self.locks > 0))

    # -- where we are

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node, node.name, set())

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        pairs = list(
            zip(reversed([*arguments.posonlyargs, *arguments.args]), reversed(arguments.defaults), strict=False)
        )
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        optional = {a.arg for a, d in pairs if isinstance(d, ast.Constant) and d.value is None}
        self._inside(node, node.name, optional)

    def _inside(self, node: ast.AST, name: str, optional: set[str]) -> None:
        held, self.locks = self.locks, 0
        self.scope.append(name)
        self.optional.append(optional)
        self.generic_visit(node)
        self.optional.pop()
        self.scope.pop()
        self.locks = held

    def visit_With(self, node: ast.With) -> None:
        held = 0
        for item in node.items:
            subject = item.context_expr
            name = dotted(subject, self.facts.aliases)
            held += last(name).lower().endswith(("lock", "mutex"))
            if isinstance(subject, ast.Call) and last(dotted(subject.func, self.facts.aliases)) in POOLS:
                self.say(node, last(dotted(subject.func, self.facts.aliases)), "leaving a pool waits for all its work")
        self.locks += held
        self.generic_visit(node)
        self.locks -= held

    # -- what may block

    def visit_For(self, node: ast.For) -> None:
        if last(dotted(node.iter, self.facts.aliases)) in STREAMS:
            self.say(node, f"for … in {last(dotted(node.iter, self.facts.aliases))}", "reads until the stream ends")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        calls = [last(dotted(n.func, {})) for n in ast.walk(node) if isinstance(n, ast.Call)]
        if "sleep" in calls:
            tests = [node.test, *(n.test for n in ast.walk(node) if isinstance(n, ast.If))]
            words = set(re.findall(r"[a-z]+", " ".join(ast.unparse(test).lower() for test in tests)))
            if not words & BOUNDS:
                self.say(node, "while", "polls without looking at the time")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = last(dotted(node.value, self.facts.aliases))
        if node.attr in SOCKET and name not in self.facts.timed and isinstance(node.ctx, ast.Load):
            self.say(node, node.attr, "the socket has no time-out")
        elif node.attr in ("read", "readlines") and name in STREAMS:
            self.say(node, node.attr, "reads until the stream ends")
        elif node.attr in ENDLESS_METHODS and id(node) not in self.called:
            self.say(node, node.attr, "takes no time-out")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func, self.facts.aliases)
        why = self._why(node, name)
        if why:
            self.say(node, last(name), why)
        if isinstance(node.func, ast.Attribute):
            self.called.add(id(node.func))
        self.generic_visit(node)

    def _why(self, call: ast.Call, name: str) -> str:
        method, optional = last(name), set().union(*self.optional)
        is_method = isinstance(call.func, ast.Attribute)
        if name in ("os.read", "os.write") and self.facts.files:
            return ""
        if name in ENDLESS or (is_method and method in ENDLESS_METHODS):
            return "takes no time-out"
        if name in TIMED_FUNCTIONS:
            return "" if bounded(given(call, *TIMED_FUNCTIONS[name]), optional) else "has no time-out"
        if name in FLAGGED:
            return "" if any(flag in ast.unparse(call) for flag in FLAGGED[name]) else "waits without a bound"
        if last(name) in ("Serial", "serial_for_url") and name.startswith("serial."):
            both = all(bounded(given(call, 99, key), optional) for key in ("timeout", "write_timeout"))
            return "" if both else "needs timeout and write_timeout"
        if method == "settimeout" and not bounded(call.args[0], optional):
            return "takes the socket's time-out away"
        if method == "setblocking" and not is_false(call.args[0]):
            return "takes the socket's time-out away"
        place = next((place for stem, place in DAQ.items() if method.startswith(stem)), None)
        if is_method and place is not None:
            return "" if bounded(given(call, place, "timeout"), optional) else "has no time-out"
        if name == "iter" and call.args and last(dotted(call.args[0], self.facts.aliases)) in TIMED:
            return "waits for each item without a time-out"
        return self._why_method(call, method, optional) if is_method else ""

    def _why_method(self, call: ast.Call, method: str, optional: set[str]) -> str:
        receiver = last(dotted(call.func.value, self.facts.aliases))  # type: ignore[attr-defined]
        if method in ("poll", "select") and receiver in self.facts.pollers:
            return "" if bounded(given(call, 0, "timeout"), optional) else "has no time-out"
        if method == "shutdown" and receiver in self.facts.pools:
            return "" if is_false(given(call, 0, "wait")) else "waits for all work"
        if method not in TIMED:
            return ""
        place, keyword = TIMED[method]
        if method == "join" and isinstance(call.func.value, ast.Constant | ast.JoinedStr):  # type: ignore[attr-defined]
            return ""
        if method == "get" and call.args and not is_true(call.args[0]):
            return ""  # a mapping's; a queue's first argument says whether to wait
        if method == "exception" and call.args:
            return ""  # a logger's
        if method == "put" and (len(call.args) != 1 or receiver in self.facts.roomy):
            return ""  # a queue that is never full
        if method == "acquire" and call.args and not isinstance(call.args[0], ast.Constant | ast.Name):
            return ""  # a lock's first argument says whether to wait; this is something else's
        if method in ("get", "put", "acquire") and is_false(given(call, place - 1, BLOCKING[method])):
            return ""
        return "" if bounded(given(call, place, keyword), optional) else "has no time-out"


BLOCKING = {"get": "block", "put": "block", "acquire": "blocking"}


def is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def waits_without_bound(source: str) -> list[Finding]:
    """Return what in ``source`` may wait for ever."""
    tree = ast.parse(source)
    looker = Looker(learn(tree))
    looker.visit(tree)
    return looker.found


#: What may wait as long as it likes, by function and call, and why that holds nobody up. Nearly all of it is the
#: simulated lab's, in a thread of its own that nobody waits for, and ends with the process at the other end.
EXCUSED = {
    "_write_all: write": "a line of a file that opens without waiting: the ledger's",
    "_listen: for … in stdin": "the watchdog's standard input: ends with the runner",
    "_Running._read_stdin: readline": "the twin's standard input: ends with the bench that started it",
    "_become_child: settimeout": "becomes a child's standard input, which is read as above",
    "_read_line: read": "standard input of the process twins are forked from: ends with the bench that started it",
    "PtyBridge._read: read": "a vendor's client may be silent as long as it likes",
    "PtyBridge._send: write": "from an outbox's own thread: its queue is bounded, a full one drops",
    "TcpBridge._serve: recv": "a vendor's client may be silent as long as it likes",
    "TcpBridge._serve: sendall": "from an outbox's own thread: its queue is bounded, a full one drops",
    "StartedChild.first_line: readline": "in a thread that is waited for with a time-out, and left to itself then",
}


def sources() -> Iterator[Path]:
    for package in (bench, fixtures):
        yield from sorted(Path(str(package.__file__)).parent.rglob("*.py"))


def test_nothing_waits_without_a_bound() -> None:
    endless: list[str] = []
    used: set[str] = set()
    for path in sources():
        for finding in waits_without_bound(path.read_text(encoding="utf-8")):
            key = f"{finding.scope}: {finding.name}"
            if key in EXCUSED and not finding.locked:
                used.add(key)
            else:
                held = ", with a lock held" if finding.locked else ""
                endless.append(f"{path}:{finding.line}: {finding.scope}: {finding.name} {finding.why}{held}")
    assert not endless, "\n".join(endless)
    assert used == set(EXCUSED), "excused and no longer there"


PLANTED = {
    "event": ("ready.wait()", "wait"),
    "event, none": ("ready.wait(None)", "wait"),
    "process": ("process.wait(timeout=None)", "wait"),
    "thread": ("self._thread.join()", "join"),
    "thread, default None": ("def f(timeout=None):\n    thread.join(timeout)", "join"),
    "thread, keyword-only default None": ("def f(*, limit_s=None):\n    thread.join(timeout=limit_s)", "join"),
    "queue get": ("item = self._queue.get()", "get"),
    "queue get, block": ("item = queue.get(True)", "get"),
    "queue get, either": ("item = q.get(timeout=1.0 if dirty else None)", "get"),
    "queue get, or": ("item = q.get(timeout=wait_s or None)", "get"),
    "queue iter": ("for item in iter(q.get, None):\n    pass", "iter"),
    "queue put": ("import queue\nself._queue = queue.Queue(8)\nself._queue.put(item)", "put"),
    "lock": ("lock.acquire()", "acquire"),
    "lock, endless": ("lock.acquire(True, -1)", "acquire"),
    "future": ("value = future.result()", "result"),
    "futures": ("from concurrent import futures\nfutures.wait(jobs)", "wait"),
    "pool": ("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p:\n    pass",
             "ThreadPoolExecutor"),
    "condition": ("changed.wait_for(lambda: ready)", "wait_for"),
    "accept": ("client, _ = server.accept()", "accept"),
    "receive": ("data = sock.recv(4096)", "recv"),
    "receive, bound method": ("receive = self.sock.recv", "recv"),
    "socket made blocking": ("sock.settimeout(2.0)\nsock.settimeout(None)", "settimeout"),
    "connect": ("import socket\nsocket.create_connection(('h', 1))", "create_connection"),
    "select": ("import select\nselect.select([a], [], [])", "select"),
    "select, from": ("from select import select as ready\nready([a], [], [], None)", "select"),
    "poller": ("import select\np = select.poll()\np.poll()", "poll"),
    "subprocess": ("import subprocess\nsubprocess.run(['ls'], check=True)", "run"),
    "subprocess, from": ("from subprocess import check_output\ncheck_output(['ls'])", "check_output"),
    "communicate": ("out, _ = process.communicate(b'')", "communicate"),
    "child": ("import os\nos.waitpid(pid, 0)", "waitpid"),
    "pipe": ("line = process.stdout.readline()", "readline"),
    "pipe, by its number": ("import os\ndata = os.read(0, 99)", "read"),
    "pipe, all": ("text = process.stdout.read()", "read"),
    "pipe, lines": ("for line in process.stdout:\n    print(line)", "for … in stdout"),
    "keyboard": ("answer = input('name? ')", "input"),
    "serial port": ("import serial\nserial.serial_for_url(url, timeout=1.0)", "serial_for_url"),
    "serial port, reads for ever": ("import serial\nserial.Serial(url, timeout=None, write_timeout=1.0)", "Serial"),
    "DAQ read": ("reader.read_many_sample(data, 100)", "read_many_sample"),
    "DAQ read, infinite": ("reader.read_many_sample(data, 100, WAIT_INFINITELY)", "read_many_sample"),
    "DAQ line": ("level = reader.read_one_sample_one_line()", "read_one_sample_one_line"),
    "DAQ line, written": ("writer.write_one_sample_one_line(True)", "write_one_sample_one_line"),
    "DAQ task": ("task.wait_until_done()", "wait_until_done"),
    "DAQ task, infinite": ("task.wait_until_done(-1)", "wait_until_done"),
    "server": ("server.wait_for_termination()", "wait_for_termination"),
    "file lock": ("import fcntl\nfcntl.flock(file, fcntl.LOCK_EX)", "flock"),
    "polling": ("while stage.busy():\n    sleep(clock, 0.01)", "while"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "name"), PLANTED.values(), ids=PLANTED.keys())
def test_a_wait_without_a_bound_is_found(source: str, name: str) -> None:
    assert name in [finding.name for finding in waits_without_bound(source)]


def test_a_finding_says_where_it_is_and_what_is_held() -> None:
    source = """
    class Writer:
        def put(self, item):
            with self._lock:
                self._thread.join()
    """
    (finding,) = waits_without_bound(textwrap.dedent(source))
    assert (finding.line, finding.scope, finding.locked) == (5, "Writer.put", True)


BOUNDED = [
    "ready.wait(2.0)",
    "def f(timeout_s=1.0):\n    thread.join(timeout_s)",
    "text = ', '.join(names)",
    "value = table.get('key')",
    "item = q.get(timeout=left_s)",
    "item = q.get(False)",
    "item = q.get_nowait()",
    "import queue\nnews = queue.SimpleQueue()\nnews.put('x')",
    "lock.acquire(blocking=False)",
    "lock.acquire(timeout=1.0)",
    "lease = book.acquire(key_of(device), rig=rig)",
    "import os\nfile = os.open(path, 0)\ndata = os.read(file, 99)",
    "_log.exception('it failed')",
    "code = process.poll()",
    "import socket\nsock = socket.create_connection(('h', 1), timeout=5.0)\nsock.recv(1)\nsock.sendall(b'')",
    "server.settimeout(1.0)\nserver.accept()",
    "import subprocess\nsubprocess.run(['git'], timeout=2.0)",
    "import fcntl\nfcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "import os\nos.waitpid(pid, os.WNOHANG)",
    "import serial\nserial.Serial(url, timeout=0.1, write_timeout=0.5)",
    "reader.read_many_sample(data, 100, 2.0)",
    "level = reader.read_one_sample_one_line(2.0)",
    "while busy():\n    if now() > deadline_ns:\n        raise TimeoutError\n    sleep(clock, 0.01)",
    "text = path.open().read()",
]


@pytest.mark.parametrize("source", BOUNDED)
def test_a_bounded_wait_is_none(source: str) -> None:
    assert waits_without_bound(source) == []
