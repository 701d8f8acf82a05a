"""Two processes at one rig: the second is refused by name; what a killed one leaves is made safe before it is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.errors import LeaseError, QuarantineError
from bench.safety.lease import Lease, LeaseBook
from bench.safety.ledger import Ledger
from bench.safety.quarantine import quarantines
from bench.twin.process import TwinProcess, start_twin

RUNNER = Path(__file__).with_name("lease_runner.py")


class Twin:
    """One simulated indenter in real time, whoever opens a station meanwhile."""

    def __init__(self, process: TwinProcess, repository: Path) -> None:
        self.process = process
        self.repository = repository
        self.runners: list[subprocess.Popen[str]] = []

    @property
    def enabled(self) -> bool:
        return bool(self.process.control.report()["enable"])

    def runner(self, *how: str) -> subprocess.Popen[str]:
        """Start another process at this rig; returns once it has it."""
        twin = json.dumps(self.process.addresses | {"pid": str(self.process.pid)})
        process = subprocess.Popen(
            [sys.executable, str(RUNNER), str(self.repository), twin, *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.runners.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process


@pytest.fixture
def twin(repository: Path) -> Iterator[Twin]:
    rig, truth = repository / "profiles/rigs/indenter.toml", repository / "profiles/twins/indenter.toml"
    with start_twin(rig, truth, "liver_phantom_a", real_time=True, linger=True) as process:
        twin = Twin(process, repository)
        yield twin
        for runner in twin.runners:
            runner.kill()
            runner.communicate(timeout=30)


def test_the_second_process_is_refused_and_told_who_has_the_rig(twin: Twin, open_rig: Callable[..., Any]) -> None:
    first = twin.runner()
    with pytest.raises(LeaseError) as refused:
        open_rig(attach=twin.process.addresses, home=False)
    for words in ("daq-01F2A3B4@twin-", f"process {first.pid} on", "for the rig indenter since"):
        assert words in refused.value.what
    assert first.poll() is None
    first.communicate("end\n", timeout=60)
    assert first.returncode == 0, "it was not disturbed"
    with open_rig(attach=twin.process.addresses, home=False) as station:
        assert {holder.process.pid for holder in LeaseBook().holders()} == {os.getpid()}
        assert not station.latched
    assert LeaseBook().holders() == []
    assert Ledger().entries() == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX")
def test_what_a_killed_process_leaves_is_taken_over_once_it_was_seen_safe(
    twin: Twin, open_rig: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = twin.runner("raw")
    assert twin.enabled
    first.kill()
    first.communicate(timeout=30)
    twin.process.control.reset()
    assert twin.enabled, "nobody has seen to it yet"

    taken: list[tuple[str, bool]] = []
    real = Lease.confirm

    def confirm(lease: Lease, seen: str = "") -> None:
        taken.append((lease.key.partition("@")[0], twin.enabled))
        real(lease, seen)

    monkeypatch.setattr(Lease, "confirm", confirm)
    with open_rig(attach=twin.process.addresses, home=False) as station:
        assert taken == [("daq-01F2A3B4", False), ("stage-57012", False)], "the line was low when they were taken over"
        assert not station.latched
    for entry in Ledger().entries():
        assert entry.kind == "lease_takeover"
        assert f"process {first.pid} on" in entry.fields["left_by"]
        assert entry.fields["because"] == "its process has ended"
        assert entry.fields["seen_safe"].startswith("the enable line reads low; by the encoder and ")
    assert len(Ledger().entries()) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX")
def test_what_cannot_be_made_safe_is_not_taken_over(twin: Twin, open_rig: Callable[..., Any]) -> None:
    first = twin.runner("raw")
    twin.process.control.fault("enable_stuck")
    first.kill()
    first.communicate(timeout=30)
    twin.process.control.reset()
    with pytest.raises(LeaseError, match=f"left behind by .*process {first.pid} on .*still reads high"):
        open_rig(attach=twin.process.addresses, home=False)
    assert {holder.process.pid for holder in LeaseBook().holders()} == {first.pid}, "its leases stay as they were"
    (standing,) = quarantines()
    assert standing.reason == "takeover_failed"
    with pytest.raises(QuarantineError, match="takeover_failed"):
        open_rig(attach=twin.process.addresses, home=False)
    assert [entry.kind for entry in Ledger().entries()] == ["quarantine"]
