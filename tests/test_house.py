"""Prove what holds for the house as a whole: its names, its lock, its wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]
TOP_LEVEL = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))

# What ties a file to one machine or one package index; the brackets keep this file from matching itself.
TIES = re.compile(
    r"/(?:wor[k]|roo[t])/|/(?:home|Users)/\w+/|file://[/]|https?://[^/\s]+/simpl[e]\b"
    r"|https?://registr[y]\.|--(?:extra-)?index-ur[l]|--find-link[s]"
)


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_no_other_distribution_brings_a_package_of_our_name(name: str) -> None:
    assert set(packages_distributions().get(name, [])) <= {"shardclock"}


def test_no_tracked_file_names_this_machine_or_an_index() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    named = [
        f"{name}: {found.group()}"
        for name in listed.stdout.split("\0")
        if (ROOT / name).is_file()
        for found in TIES.finditer((ROOT / name).read_text(errors="replace"))
    ]
    assert named == []


def test_every_locked_package_is_pinned_and_hashed_and_comes_from_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert [entry for entry in entries if not re.match(r"[\w.-]+==\S+ .*\\\n +--hash=sha256:", entry)] == []


def test_the_lock_holds_every_dependency_we_name() -> None:
    locked = {
        _normal(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    }
    project = PYPROJECT["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *PYPROJECT["build-system"]["requires"],
    ]
    assert {_normal(re.split(r"[<>=\[ ]", name)[0]) for name in asked} - locked == set()


@pytest.mark.slow
def test_the_wheel_brings_the_sql_and_the_types(tmp_path: Path) -> None:
    # A copy: setuptools leaves a build folder behind, and puts what lies there into the next wheel.
    tree, out = tmp_path / "tree", tmp_path / "out"
    for name in TOP_LEVEL:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out)]
    subprocess.run([*build, str(tree)], check=True, timeout=120)

    (wheel,) = out.glob("*.whl")
    brought = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    kept = {path for name in TOP_LEVEL for path in (ROOT / name).rglob("*")}
    shipped = {path for path in kept if path.suffix in {".py", ".sql"} or path.name == "py.typed"}
    assert brought == {path.relative_to(ROOT).as_posix() for path in shipped}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
