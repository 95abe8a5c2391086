"""Programs that make a database for a user with a number and no name, as in a container with `--user 1000`.

`initdb` and `postgres --single` ask for their user's name and end if there is none, although `--username` makes the
answer useless. A server does not ask. docs/decisions/0074-a-user-without-a-name.md.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from shardclock_server.embedded.modes import make_private

# `getpwuid(uid)` finds nothing. `getpwent()` returns an entry of the same shape, the first of all.
ASKED, ASKED_INSTEAD = b"\0getpwuid\0", b"\0getpwent\0"
PROGRAMS = ("initdb", "postgres")


def has_name() -> bool:
    """Say whether this process's user has a name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


@contextmanager
def programs_for_unnamed(programs: Path, place: Path) -> Iterator[Path]:
    """Copy the programs that ask for the user's name so that they get one; give the copies' directory for a block.

    errors:  OSError  there is no room for 11 MB
    """
    version, package = programs.parent, programs.parent.parent
    root = place / "programs.new"
    rmtree(root, ignore_errors=True)
    copies = root / package.name / version.name / programs.name
    try:
        for folder in (root, copies.parent.parent, copies.parent, copies):
            make_private(folder)
        # Both find their other files relative to their own place.
        for beside in version.iterdir():
            if beside.name != programs.name:
                (copies.parent / beside.name).symlink_to(beside)
        (root / f"{package.name}.libs").symlink_to(package.with_name(f"{package.name}.libs"))
        for name in PROGRAMS:
            copy = copies / name
            copy.write_bytes((programs / name).read_bytes().replace(ASKED, ASKED_INSTEAD))
            copy.chmod(0o700)
        yield copies
    finally:
        rmtree(root, ignore_errors=True)
