"""The wheels of this tree, and an environment with these wheels."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.distributions import INSTALL_S, MADE_AT, pip
from tools.wheels import build_wheels, copy_sources


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("wheel") / "tree")


@pytest.fixture(scope="session")
def wheels(tree: Path) -> dict[str, Path]:
    return build_wheels(tree, tree / "dist", epoch=MADE_AT)


@pytest.fixture
def installed(wheels: dict[str, Path], tmp_path: Path) -> Path:
    """Make an environment with the wheels and their dependencies, without this tree; return the folder of programs."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=INSTALL_S)
    pip(venv / "bin", "install", "-q", "--no-deps", "--no-index", *map(str, wheels.values()))
    (site,) = venv.glob("lib/python*/site-packages")
    # A plain path. Python does not read the .pth files in this folder, which would make this tree importable.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv / "bin"


@pytest.fixture
def other(installed: Path, tmp_path: Path) -> Path:
    """Install our distribution and another one that also has a package `metrics`; return the folder of programs."""
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
