"""Create a database as a system user without a name, as in a container with `--user 1000`.

`initdb` and `postgres --single` look up the name of their user, and fail without a name, even with `--username`. A
server does not look up the name. See docs/decisions/0074-a-user-without-a-name.md.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from shardclock_server.embedded.modes import make_private

# The programs get the name from `getpwuid(uid)`, which finds no entry for this user. `getpwent()` ignores the argument,
# and returns the entry of the first user.
NAME_LOOKUP, REPLACEMENT = b"\0getpwuid\0", b"\0getpwent\0"
PROGRAMS = ("initdb", "postgres")


def has_name() -> bool:
    """Return whether this process's user has a name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


@contextmanager
def programs_for_unnamed(programs: Path, parent: Path) -> Iterator[Path]:
    """Yield a directory with copies of the programs, patched so that they find a user name; then remove the directory.

    errors:  OSError  the disk has less than 11 MB
    """
    version, package = programs.parent, programs.parent.parent
    root = parent / "programs.new"
    rmtree(root, ignore_errors=True)
    copies = root / package.name / version.name / programs.name
    try:
        for folder in (root, copies.parent.parent, copies.parent, copies):
            make_private(folder)
        # `initdb` and `postgres` search their other files relative to their path.
        for sibling in version.iterdir():
            if sibling.name != programs.name:
                (copies.parent / sibling.name).symlink_to(sibling)
        (root / f"{package.name}.libs").symlink_to(package.with_name(f"{package.name}.libs"))
        for name in PROGRAMS:
            copy = copies / name
            copy.write_bytes((programs / name).read_bytes().replace(NAME_LOOKUP, REPLACEMENT))
            copy.chmod(0o700)
        yield copies
    finally:
        rmtree(root, ignore_errors=True)
