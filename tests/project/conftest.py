"""The wheels of this tree, and an environment with these wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support import PACKAGE_NAMES, ROOT
from tests.support.distributions import pip, wheel_of

INSTALL_S = 60


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources of the distributions: setuptools leaves a build folder there, and packs it the next time."""
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    for name in (*PACKAGE_NAMES, "shardclock_server", "client"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    return tree


@pytest.fixture(scope="session")
def wheels(tree: Path) -> dict[str, Path]:
    """Build the wheels of the server and of the client."""
    return {"client": wheel_of(tree / "client"), "server": wheel_of(tree)}


@pytest.fixture
def installed(wheels: dict[str, Path], tmp_path: Path) -> Path:
    """Make an environment with the wheels and their dependencies, without this tree; return its folder of programs."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=INSTALL_S)
    pip(venv / "bin", "install", "-q", "--no-deps", "--no-index", *map(str, wheels.values()))
    (site,) = venv.glob("lib/python*/site-packages")
    # A plain path. The .pth files that make this tree importable there are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv / "bin"


@pytest.fixture
def other(installed: Path, tmp_path: Path) -> Path:
    """Install another distribution with a package `metrics` beside ours; return the folder of programs."""
    wheel, info = tmp_path / "other-1-py3-none-any.whl", "other-1.dist-info"
    files = {
        "metrics/__init__.py": "OTHER = True\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            packed.writestr(name, text)
    pip(installed, "install", "-q", "--no-deps", "--no-index", str(wheel))
    return installed
