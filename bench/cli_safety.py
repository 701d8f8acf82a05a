"""The commands ``bench quarantine`` and ``bench leases``: what is kept of this machine's rigs, and who has them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

OK, NO = 0, 1

_CLEAR = """\
Look at the rig first: does it stand, is it without power, does the e-stop work? Put the cause right. Then clear the
quarantine under your name and say what you found; both stay in the ledger."""


def add_safety_commands(commands: Any, say: Callable[[str], None]) -> None:
    """Add the commands to the subparsers ``commands``; ``say`` prints a line."""
    quarantine = commands.add_parser(
        "quarantine",
        help="rigs that could not be made safe: list them, clear one, read the ledger",
        description="A rig that was not seen to be safe when it should be is in quarantine: nothing opens it until a "
        "person has looked at it and clears it. Without a word: list.",
    )
    quarantine.set_defaults(run=lambda options: _list(say))
    actions = quarantine.add_subparsers(metavar="ACTION")
    listed = actions.add_parser("list", help="the rigs in quarantine, with why and since when (exit code 1 if any)")
    listed.set_defaults(run=lambda options: _list(say))
    clear = actions.add_parser("clear", help="end the quarantine of a rig", description=_CLEAR)
    clear.add_argument("rig", metavar="RIG", help="its name, as the list shows it")
    clear.add_argument("--by", metavar="NAME", required=True, help="who has looked at the rig")
    clear.add_argument("--reason", metavar="TEXT", required=True, help="what was found and put right")
    clear.set_defaults(run=lambda options: _clear(options, say))
    ledger = actions.add_parser("ledger", help="all that happened, after a check that nobody has changed it")
    ledger.set_defaults(run=lambda options: _ledger(say))

    leases = commands.add_parser("leases", help="who holds which device at this moment")
    leases.set_defaults(run=lambda options: _leases(say))


def _list(say: Callable[[str], None]) -> int:
    from bench.safety.quarantine import quarantines

    standing = quarantines()
    for one in standing:
        say(str(one))
    if not standing:
        say("no rig is in quarantine")
    return NO if standing else OK


def _clear(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    from bench.safety.quarantine import clear_quarantine

    entry = clear_quarantine(options.rig, by=options.by, reason=options.reason)
    say(f"{options.rig} may be used again; entry {entry.number} of the ledger, digest {entry.digest}")
    return OK


def _ledger(say: Callable[[str], None]) -> int:
    from bench.safety.ledger import Ledger

    ledger = Ledger()
    entries = ledger.entries()
    for entry in entries:
        hidden = ("number", "kind", "utc", "user", "host", "pid", "previous")
        told = ", ".join(f"{key} {value}" for key, value in entry.fields.items() if key not in hidden and value)
        by = f"{entry.fields['user']}, process {entry.fields['pid']} on {entry.fields['host']}"
        say(f"{entry.number:4d} {entry.fields['utc']} {entry.kind}: {told} [{by}]")
    last = f", the last one's digest is {entries[-1].digest}" if entries else ""
    say(f"{ledger.path}: {len(entries)} entries, each follows from the one before{last}")
    return OK


def _leases(say: Callable[[str], None]) -> int:
    from bench.safety.lease import LeaseBook

    holders = LeaseBook().holders()
    for holder in holders:
        why = holder.stale()
        say(f"{holder.key}: {holder}" + (f" (stale: {why})" if why else ""))
    if not holders:
        say("nobody holds a device")
    return OK
