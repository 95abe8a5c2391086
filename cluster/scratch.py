"""Create temporary directories, and remove the directories of killed processes.

Each directory has a locked file. The kernel releases the lock when the last process with the lock ends, even by a kill.
A directory with a free lock is therefore abandoned. A directory without a lock file is never removed.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from shardclock_server.embedded.memory import MEMORY

PREFIX = "shardclock-"
LOCK = "owner.lock"
# The limit for the path of the directory. Linux allows 107 bytes for the path of a socket: `/shardclock-ray-…/r` has 26
# bytes, and Ray's part of the path has 64 bytes if the pid has 7 digits.
PLACE_BYTES_MAX = 17
# The characters that a path may have, because Ray writes paths into its command lines.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)
SHORT = Path("/tmp")  # noqa: S108 - each directory that is made here has a random name, and only its owner may enter it


class NoPlace(OSError):
    """No directory for temporary files can be used. The message names the variable that sets another directory."""


class Scratch:
    """One locked temporary directory. A child process that inherits `fileno` also holds the lock."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, kind: str, *, place: Path | None = None) -> Self:
        """Create a directory with `kind` in its name, in `place` or in the directory for temporary files.

        Only the owner may enter the new directory. A directory for sockets must be in `short_place()`.

        errors:  NoPlace  the directory can't be made
        """
        try:
            path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=place))
        except OSError as error:
            raise _no_place(error) from None
        new = path / f"{LOCK}.new"
        lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Lock the file before it gets the name LOCK: so no other process ever sees an unlocked file with this name.
        new.rename(path / LOCK)
        return cls(path, lock)

    def fileno(self) -> int:
        """Return the descriptor of the lock; a process that inherits the descriptor also holds the lock."""
        return self._lock

    def remove(self) -> None:
        """Remove the directory, or as much of its content as possible; a further call removes the rest."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def short_place() -> Path:
    """Return the system's directory for temporary files, or /tmp.

    The result is /tmp if the path of a socket in the system's directory would be too long, or would contain unsafe
    characters.

    errors:  NoPlace  there is no directory for temporary files
    """
    try:
        chosen = tempfile.gettempdir()
    except OSError as error:
        raise _no_place(error) from None
    fits = len(os.fsencode(chosen)) <= PLACE_BYTES_MAX and PLAIN.fullmatch(chosen)
    return Path(chosen) if fits or not os.access(SHORT, os.W_OK | os.X_OK) else SHORT


def remove_abandoned() -> list[Path]:
    """Remove the directories of killed processes, and return their paths.

    shape:   a directory is removed if it belongs to this user, its lock file is free, and no process has the directory
             in its command line
    """
    removed = []
    for path in _found(f"{PREFIX}*-*"):
        with ExitStack() as open_files:
            if not _is_abandoned(path, open_files):
                continue
            shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            removed.append(path)
    return removed


@contextmanager
def left_behind(kind: str) -> Iterator[list[Path]]:
    """Lock the abandoned directories of a kind during a block, and yield the paths of these directories.

    A server may still run in an abandoned directory.
    """
    with ExitStack() as open_files:
        yield [path for path in _found(f"{PREFIX}{kind}-*") if _has_no_owner(path, open_files)]


def _no_place(error: OSError) -> NoPlace:
    return NoPlace(f"no directory for temporary files can be used: {error}; name one with TMPDIR")


def _found(names: str) -> list[Path]:
    places = {short_place(), Path(tempfile.gettempdir()), MEMORY}
    return sorted(path for place in places for path in place.glob(names))


def _is_abandoned(path: Path, open_files: ExitStack) -> bool:
    """Return whether a directory is abandoned.

    If the directory is abandoned, this process holds the directory's lock until `open_files` is closed.
    """
    import psutil  # its import takes 20 ms, and only this function needs it

    # The children of a killed process may continue: Postgres for a long time, other children for a moment.
    return _has_no_owner(path, open_files) and not any(
        str(path) in argument
        for process in psutil.process_iter(["cmdline"])
        for argument in process.info["cmdline"] or ()
    )


def _has_no_owner(path: Path, open_files: ExitStack) -> bool:
    try:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        lock = open_files.enter_context((path / LOCK).open("rb"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
