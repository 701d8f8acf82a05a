"""Leases: one holder at a time, told by name; a stale one is taken over only by who has seen the rig safe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import LeaseError
from bench.safety import lease as lease_module
from bench.safety import process_identity, rig_leases
from bench.safety.lease import LeaseBook, device_key
from bench.safety.ledger import Ledger, user
from bench.safety.process_identity import ProcessIdentity, identity_of, start_of, this_host, this_process
from bench.safety.quarantine import rig_key
from bench.safety.rig_leases import RigLeases

Hold = Callable[[str], "subprocess.Popen[str]"]
KEY = "daq-01F2A3B4"


@pytest.fixture
def book(tmp_path: Path) -> LeaseBook:
    return LeaseBook(tmp_path)


def written(book: LeaseBook, key: str = KEY) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(book.path(key).read_text(encoding="utf-8") or "{}")
    return content


def rewrite(book: LeaseBook, **changes: object) -> None:
    book.path(KEY).write_text(json.dumps(written(book) | changes), encoding="utf-8")


def kinds(book: LeaseBook) -> list[str]:
    return [entry.kind for entry in book.ledger.entries()]


# -- held


def test_a_held_device_is_refused_with_the_holders_name(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    with pytest.raises(LeaseError) as refused:
        book.acquire(KEY, rig="indenter_2")
    for words in (KEY, user(), f"process {holder.pid} on", "for the rig indenter since 20"):
        assert words in refused.value.what
    assert refused.value.remedy
    assert refused.value.holder is not None
    assert [one.process.pid for one in book.holders()] == [holder.pid]


def test_one_device_of_a_rig_does_not_keep_another_ones(book: LeaseBook, hold: Hold) -> None:
    hold(KEY)
    book.acquire("daq-01F2A3B5", rig="indenter_2").release()


def test_a_released_lease_is_free(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    holder.communicate("done\n", timeout=30)
    lease = book.acquire(KEY, rig="indenter")
    assert lease.left_by is None
    lease.release()
    lease.release()
    assert book.holders() == []
    assert kinds(book) == [], "nothing out of the ordinary"


def test_a_process_does_not_get_what_it_holds_itself(book: LeaseBook) -> None:
    lease = book.acquire(KEY, rig="indenter")
    with pytest.raises(LeaseError, match="held by this process itself"):
        book.acquire(KEY, rig="indenter")
    lease.release()
    book.acquire(KEY, rig="indenter").release()


def test_of_many_who_want_it_one_gets_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\nfrom bench.errors import LeaseError\n"
        "from bench.safety.lease import LeaseBook\nbook = LeaseBook(Path(sys.argv[1]))\nsys.stdin.readline()\n"
        "try:\n    book.acquire('daq-1', rig='r'); print('got', flush=True)\n"
        "except LeaseError: print('refused', flush=True)\nsys.stdin.readline()"
    )
    wanting = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in wanting:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in wanting if process.stdout is not None]
    for process in wanting:
        process.communicate("end\n", timeout=30)
    assert sorted(answers) == ["got", "refused", "refused", "refused"]


# -- stale


def test_what_a_killed_holder_leaves_is_taken_over_once_the_rig_was_seen_safe(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    holder.kill()
    holder.wait(timeout=30)
    lease = book.acquire(KEY, rig="indenter")
    assert lease.left_by is not None
    assert lease.left_by.process.pid == holder.pid
    assert kinds(book) == [], "nobody has looked at the rig yet"
    with pytest.raises(LeaseError):
        book.acquire(KEY, rig="indenter")
    lease.confirm("the enable line reads low")
    (entry,) = book.ledger.entries()
    assert entry.kind == "lease_takeover"
    assert f"process {holder.pid} on" in entry.fields["left_by"]
    assert entry.fields["because"] == "its process has ended"
    assert entry.fields["seen_safe"] == "the enable line reads low"
    lease.renew()
    lease.release()
    assert book.acquire(KEY, rig="indenter").left_by is None


def test_a_rig_nobody_has_seen_safe_stays_stale(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    holder.kill()
    holder.wait(timeout=30)
    for _ in range(2):
        lease = book.acquire(KEY, rig="indenter")
        assert lease.left_by is not None
        assert lease.left_by.process.pid == holder.pid
        lease.release()
    assert kinds(book) == []


def test_who_dies_at_looking_leaves_it_stale(book: LeaseBook, hold: Hold) -> None:
    first = hold(KEY)
    first.kill()
    first.wait(timeout=30)
    second = hold(KEY)  # takes the stale lease and confirms nothing
    second.kill()
    second.wait(timeout=30)
    lease = book.acquire(KEY, rig="indenter")
    assert lease.left_by is not None
    assert lease.left_by.process.pid == first.pid


def test_a_number_the_system_gave_to_another_process_does_not_keep_it(book: LeaseBook) -> None:
    book.acquire(KEY, rig="indenter")
    other = vars(this_process()) | {"started": "1"}  # this very number, but another process's start
    rewrite(book, process=other)
    assert book.acquire(KEY, rig="indenter").left_by is not None


def test_a_holder_without_a_sign_of_life_is_taken_over_and_told_so(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    kept = written(book)
    rewrite(book, heartbeat_ns=time.monotonic_ns() - round(29e9))
    with pytest.raises(LeaseError):
        book.acquire(KEY, rig="indenter")
    rewrite(book, heartbeat_ns=time.monotonic_ns() - round(31e9))
    assert kept["expiry_s"] == 30.0
    lease = book.acquire(KEY, rig="indenter")
    lease.confirm("line low")
    assert "no sign of life for 31 s" in book.ledger.entries()[-1].fields["because"]
    holder.communicate("release\n", timeout=30)  # it gives back what is no longer its own: nothing happens
    lease.renew()


def test_one_that_was_taken_for_dead_learns_of_it(book: LeaseBook) -> None:
    lease = book.acquire(KEY, rig="indenter")
    rewrite(book, id="somebody's", process=vars(identity_of(os.getppid())))
    with pytest.raises(LeaseError, match=f"was lost to .*process {os.getppid()}"):
        lease.renew()
    assert lease.lost
    lease.release()
    assert written(book)["id"] == "somebody's"


def test_nothing_is_taken_over_that_somebody_else_has_taken_over_meanwhile(book: LeaseBook, hold: Hold) -> None:
    holder = hold(KEY)
    holder.kill()
    holder.wait(timeout=30)
    lease = book.acquire(KEY, rig="indenter")
    rewrite(book, id="somebody's", process=vars(identity_of(os.getppid())))
    with pytest.raises(LeaseError, match="was lost to"):
        lease.confirm("line low")
    assert lease.left_by is not None
    assert kinds(book) == []


def test_another_machines_holder_counts_by_its_signs_of_life(book: LeaseBook) -> None:
    book.acquire(KEY, rig="indenter")
    elsewhere = {"host": "lab-pc-2//", "pid": 1, "started": ""}
    rewrite(book, process=elsewhere)
    with pytest.raises(LeaseError, match="process 1 on lab-pc-2"):
        book.acquire(KEY, rig="indenter")
    rewrite(book, heartbeat="2020-01-01T00:00:00+00:00")
    assert book.acquire(KEY, rig="indenter").left_by is not None


def test_a_machine_that_was_started_anew_holds_nothing() -> None:
    name, boot, namespace = this_host().split("/")
    if not boot:
        pytest.skip("this system does not tell one boot from another")
    assert ProcessIdentity(this_host(), os.getpid(), start_of(os.getpid()) or "").alive()
    assert ProcessIdentity(f"{name}/an-earlier-boot/{namespace}", os.getpid(), "").alive() is False
    assert ProcessIdentity(f"{name}/{boot}/pid:[1]", os.getpid(), "").alive() is None, "another container"


@pytest.mark.skipif(shutil.which("ps") is None, reason="this system has no ps")
def test_a_system_without_proc_is_asked_by_ps(hold: Hold) -> None:
    holder = hold(KEY)
    started = process_identity._start_by_ps(holder.pid)
    assert started
    assert process_identity._start_by_ps(holder.pid) == started
    holder.kill()
    deadline = time.monotonic() + 30.0
    while process_identity._start_by_ps(holder.pid) is not None:  # a zombie, for as long as nobody waits for it
        assert time.monotonic() < deadline, "it counts as alive"
        time.sleep(0.01)
    holder.wait(timeout=30)
    assert process_identity._start_by_ps(holder.pid) is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux")
def test_a_process_another_user_may_not_see_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: OSError = PermissionError()

    def kill(pid: int, number: int) -> None:
        assert number == 0, "it is asked for, and nothing else is done to it"
        raise answer

    def hidden(path: Path, **options: object) -> str:
        raise FileNotFoundError(2, "no such file", str(path))

    other = ProcessIdentity(this_host(), 4_000_000, "123")
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(Path, "read_text", hidden)
    assert other.alive()
    answer = ProcessLookupError()
    assert other.alive() is False


def test_a_damaged_file_keeps_everybody_out_for_as_long_as_a_holder_might_be_there(book: LeaseBook) -> None:
    book.path(KEY).write_text('{"key": "daq-01F2', encoding="utf-8")
    with pytest.raises(LeaseError, match="cannot be read"):
        book.acquire(KEY, rig="indenter")
    old = time.time() - 31
    os.utime(book.path(KEY), (old, old))
    assert book.acquire(KEY, rig="indenter").left_by is not None


# -- freed by who made the rig safe


def test_who_made_the_rig_safe_frees_what_the_dead_held(book: LeaseBook, hold: Hold) -> None:
    holder, other = hold(KEY), hold("daq-1")
    assert book.release_of(holder.pid, seen="line low") == [], "it lives"
    holder.kill()
    holder.wait(timeout=30)
    assert book.release_of(holder.pid, rig="single_joint", seen="line low") == [], "nobody has seen the indenter"
    assert book.release_of(holder.pid, rig="indenter", seen="line low") == [KEY]
    assert kinds(book) == ["lease_freed"]
    assert book.acquire(KEY, rig="indenter").left_by is None
    assert [one.process.pid for one in book.holders() if one.key == "daq-1"] == [other.pid]


# -- of a simulated lab


def test_equal_serial_numbers_of_two_simulated_labs_are_two_devices(book: LeaseBook, tmp_path: Path) -> None:
    here, there = this_process(), identity_of(os.getppid())
    assert device_key("daq", "01F2A3B4") == KEY
    one = book.acquire(device_key("daq", "01F2A3B4", here), rig="indenter")
    two = book.acquire(device_key("daq", "01F2A3B4", there), rig="indenter")
    assert one.key != two.key
    assert {holder.place for holder in book.holders()} == {rig_key("indenter", here), rig_key("indenter", there)}
    with pytest.raises(LeaseError):
        book.acquire(device_key("daq", "01F2A3B4", here), rig="indenter")
    ended = device_key("daq", "01F2A3B4", ProcessIdentity(this_host(), here.pid, "1"))
    book.acquire(ended, rig="indenter")
    book.sweep_twins()
    assert sorted(path.name for path in book.folder.iterdir()) == sorted(
        [book.path(one.key).name, book.path(two.key).name]
    )
    one.release()
    two.release()
    assert list(book.folder.iterdir()) == [], "nobody will ever ask for these again"


# -- of an open station


def test_the_leases_of_a_rig_are_renewed_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_leases, "RENEWAL_S", 0.01)
    leases = RigLeases("indenter", folder=tmp_path)
    leases.take("daq", "01F2A3B4")
    leases.take("stage", "57012")
    leases.take("servo", "")  # cannot tell its number
    assert leases.keys == ("daq-01F2A3B4", "stage-57012")
    book = LeaseBook(tmp_path)
    first = written(book)["heartbeat_ns"]
    deadline = time.monotonic() + 30.0
    while written(book)["heartbeat_ns"] == first:
        assert time.monotonic() < deadline, "nobody gives a sign of life"
        time.sleep(0.01)
    leases.check()
    leases.release()
    assert book.holders() == []
    assert Ledger(tmp_path).entries() == []


def test_a_rig_whose_lease_was_lost_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_leases, "RENEWAL_S", 0.01)
    leases = RigLeases("indenter", folder=tmp_path)
    leases.take("daq", "01F2A3B4")
    rewrite(LeaseBook(tmp_path), id="somebody's", process=vars(identity_of(os.getppid())))
    deadline = time.monotonic() + 30.0
    while not leases.lost:
        assert time.monotonic() < deadline, "nobody noticed"
        time.sleep(0.01)
    with pytest.raises(LeaseError, match="the lease on daq-01F2A3B4 was lost"):
        leases.check()
    leases.release()


def test_the_second_device_that_is_held_leaves_the_first_to_be_given_back(tmp_path: Path, hold: Hold) -> None:
    hold("stage-57012")
    leases = RigLeases("indenter", folder=tmp_path)
    leases.take("daq", "01F2A3B4")
    with pytest.raises(LeaseError, match="stage-57012"):
        leases.take("stage", "57012")
    leases.release()
    assert [holder.key for holder in LeaseBook(tmp_path).holders()] == ["stage-57012"]


def test_renewal_is_quicker_than_expiry() -> None:
    assert lease_module.RENEWAL_S * 3 <= lease_module.EXPIRY_S
