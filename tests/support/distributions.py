"""Build distributions, and install them in an environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BUILD_S = 120
INSTALL_S = 60
MADE_AT = "1800000000"  # the time of the files in a wheel, in seconds since 1970


def wheel_of(tree: Path) -> Path:
    out = tree / "dist"
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out)]
    subprocess.run([*build, str(tree)], check=True, timeout=BUILD_S)
    (wheel,) = out.glob("*.whl")
    return wheel


def pip(programs: Path, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(programs / "python"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
