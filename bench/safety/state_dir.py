"""Where this machine keeps what outlives a run: leases, quarantines and their ledger, shared by everybody who uses it.

::

    BENCH_STATE_DIR/            else /var/lib/forcebench (POSIX), %PROGRAMDATA%\\forcebench (Windows)
      leases/                   one file for every device, by the serial number read back
      quarantine/               one file for every rig that could not be made safe
      ledger.jsonl              what happened to them, in order

Two users of one machine must see the same folder, or each would hold a lease of his own on one rig. So a folder that
is there but not open to this user is an error and never a reason to go elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.errors import StateError

VARIABLE = "BENCH_STATE_DIR"
#: Wall time to wait for another process that is reading or writing the same file [s]: it takes milliseconds.
LOCK_WALL_S = 10.0
_LOCK_POLL_S = 0.002
#: Everybody may make files here, and nobody may remove another one's.
_SHARED_FOLDER, _SHARED_FILE = 0o1777, 0o666


def state_dir(folder: Path | str | None = None) -> Path:
    """Return the folder of this machine's bench state, made if need be.

    Parameters
    ----------
    folder : Path, optional
        Instead of ``BENCH_STATE_DIR`` and the machine's own.

    Raises
    ------
    StateError
        There is no such folder to be had, or this user may not write to it.
    """
    named = folder or os.environ.get(VARIABLE)
    if named:
        return _made(Path(named))
    if os.name == "nt":
        return _made(Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "forcebench")
    installed = Path("/var/lib/forcebench")  # made by whoever installs the bench for several users
    return _made(installed if installed.is_dir() else Path("/var/tmp/forcebench"))


def subfolder(folder: Path, name: str) -> Path:
    """Return the folder ``name`` in the state folder ``folder``, made if need be."""
    return _made(folder / name)


def _made(folder: Path) -> Path:
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            if os.name != "nt" and folder.stat().st_uid == os.getuid():
                folder.chmod(_SHARED_FOLDER)
        status = folder.lstat()
    except OSError as error:
        raise StateError(
            f"the folder of leases and quarantines cannot be made ({error.strerror or error})",
            where=str(folder),
            remedy=f"Let an administrator make it, open to all who use the rig, or set {VARIABLE} for all of them",
        ) from error
    if stat.S_ISLNK(status.st_mode) and os.name != "nt" and status.st_uid not in (0, os.getuid()):
        raise StateError(
            "the folder of leases and quarantines is a link that another user made",
            where=str(folder),
            remedy=f"Remove it, or set {VARIABLE} to a folder of the machine's own",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StateError(
            "this user may not write to the folder of leases and quarantines",
            where=str(folder),
            remedy=f"Open it to all who use the rig (chmod 1777), or set {VARIABLE} to another one for all of them",
        )
    return folder


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open ``path``, made if need be, and hold it against other processes; yields the file descriptor.

    The operating system lets go of it when this process dies. Files of a rig are rewritten in place and not removed:
    only so may a user take over what another one left.

    Raises
    ------
    StateError
        It cannot be opened, or another process holds it for longer than :data:`LOCK_WALL_S`.
    """
    deadline = time.monotonic() + LOCK_WALL_S
    descriptor = _opened(path)
    try:
        while not (_try_lock(descriptor) and _still_there(descriptor, path)):
            if time.monotonic() > deadline:
                raise StateError(
                    f"another process holds the file for more than {LOCK_WALL_S:g} s",
                    where=str(path),
                    remedy="Look for a bench program that hangs, and end it",
                )
            time.sleep(_LOCK_POLL_S)
            if not _still_there(descriptor, path):
                os.close(descriptor)
                descriptor = _opened(path)
        yield descriptor
    finally:
        os.close(descriptor)  # lets go of the lock, too


def _still_there(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one of that name: whoever held it before may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def remove_locked(path: Path) -> None:
    """Remove a file that is held (see :func:`locked`), where this user and this system can."""
    with contextlib.suppress(OSError):
        path.unlink()


def _opened(path: Path) -> int:
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        # Without O_CREAT first: Linux refuses it for another user's file in a sticky folder (fs.protected_regular).
        for _ in range(3):
            try:
                return os.open(path, flags)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, _SHARED_FILE)
                    if os.name != "nt":
                        os.fchmod(descriptor, _SHARED_FILE)  # whatever the umask says
                    return descriptor
        raise FileNotFoundError(2, "it comes and goes")
    except OSError as error:
        raise StateError(
            f"the file cannot be opened for writing ({error.strerror or error})",
            where=str(path),
            remedy="It must be open to all who use the rig (chmod 666)",
        ) from error


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # One byte far beyond the content: Windows keeps others from reading what is locked.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def read_record(descriptor: int) -> dict[str, Any] | None:
    """Return the JSON object in an open file, {} of an empty one, None when it is damaged."""
    text = read_all(descriptor)
    if not text.strip():
        return {}
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def write_record(descriptor: int, content: dict[str, Any], *, durable: bool) -> None:
    """Replace what an open file holds by a JSON object; ``durable`` also survives a power cut from then on."""
    data = json.dumps(content, sort_keys=True).encode() + b"\n" if content else b"\n"
    # What is left of a longer record becomes blanks, so that one write is all there is: no half record after a kill.
    os.lseek(descriptor, 0, os.SEEK_SET)
    size = os.fstat(descriptor).st_size
    os.write(descriptor, data + b" " * max(0, size - len(data)))
    if durable:
        os.fsync(descriptor)


def read_all(descriptor: int) -> bytes:
    """Return what an open file holds."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def file_name(key: str) -> str:
    """Return a file name for ``key``: its own characters where every system takes them, the others in hexadecimal."""
    kept = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_@.")
    return "".join(c if c in kept else f"%{ord(c):X}_" for c in key) + ".json"


def name_of(path: Path) -> str:
    """Return what :func:`file_name` was made of."""
    return re.sub("%([0-9A-F]+)_", lambda found: chr(int(found[1], 16)), path.name.removesuffix(".json"))
