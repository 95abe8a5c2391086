"""Build the wheels of both distributions reproducibly into dist/: python -m tools.wheels.

The bytes of a wheel depend on the modes and times of its files, and setuptools also packs the folder `build` of an
earlier build. Each build therefore uses a new copy of the sources. In this copy, the files have fixed modes, and the
time of the last commit or SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import PACKAGE_NAMES, ROOT

EPOCH = "SOURCE_DATE_EPOCH"  # https://reproducible-builds.org/specs/source-date-epoch/
FILES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
BUILD_S = 300


def copy_sources(to: Path) -> Path:
    """Copy the sources of both distributions with a fixed mode for all files; return the folder."""
    for name in (*PACKAGE_NAMES, "shardclock_server", "client"):
        shutil.copytree(ROOT / name, to / name, symlinks=True, ignore=IGNORED)
    for name in FILES:
        shutil.copy(ROOT / name, to)
    for path in to.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
    return to


def build_wheels(tree: Path, to: Path, *, epoch: str) -> dict[str, Path]:
    """Build the wheels from the sources in `tree`; return the client's wheel and the server's wheel.

    errors:  CalledProcessError  a wheel can't be built
    """
    tool = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command = [*tool, "--wheel-dir", str(to), str(tree / "client"), str(tree)]
    environment: Mapping[str, str] = os.environ | {EPOCH: epoch}
    subprocess.run(command, env=environment, umask=0o022, check=True, timeout=BUILD_S)
    (client,), (server,) = to.glob("shardclock_client-*.whl"), to.glob("shardclock-*.whl")
    return {"client": client, "server": server}


def last_commit() -> str:
    """Return the time of the last commit, in seconds since 1970; SOURCE_DATE_EPOCH replaces it.

    errors:  CalledProcessError  the sources are not in a git repository
    """
    if given := os.environ.get(EPOCH):
        return given
    asked = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Build the wheels, and print their paths."""
    to = ROOT / "dist"
    for old in to.glob("shardclock*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="shardclock-wheels-") as folder:
        wheels = build_wheels(copy_sources(Path(folder) / "tree"), to, epoch=last_commit())
    sys.stdout.write("".join(f"{path.relative_to(ROOT)}\n" for path in wheels.values()))


if __name__ == "__main__":
    main()
