"""Test that the server has one import name, for the interpreter, the tools and the installed packages."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import PACKAGE_NAMES, ROOT
from tests.support.distributions import pip, wheel_of

NAME = "shardclock_server"
FOLDERS = (*PACKAGE_NAMES, "benchmarks", "chaos", "client", "examples", "k8s", "tests", "tools")
SOURCES = sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
# An import path without the first word, such as sql.session instead of NAME.sql.session.
DOTTED = re.compile(rf"({'|'.join(PACKAGE_NAMES)})\.([a-z_]+)(?:\.\w+)*")
SUSPECT = re.compile(rf"""(?:import|from) +(?:{"|".join(PACKAGE_NAMES)})\b|["']{DOTTED.pattern}["']""")
SHIPPED = {".py", ".sql", ".css", ".html", ".js"}


def test_the_import_name_contains_a_link_for_each_package_and_no_other_entry() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {NAME, "benchmarks", "chaos", "charts"}

    assert {*PACKAGE_NAMES} == packages - {"tests", "tools"}
    assert {path.readlink().as_posix() for path in (ROOT / NAME).iterdir() if path.is_symlink()} == {
        f"../{name}" for name in PACKAGE_NAMES
    }
    assert {path.name for path in (ROOT / NAME).iterdir() if path.is_file()} == {"__init__.py", "py.typed"}


@pytest.mark.parametrize("name", ["cluster", "shards", "coordinator", "sql", "tests", "k8s"])
def test_the_folders_of_the_cluster_stay_real_folders_at_the_top_level(name: str) -> None:
    # Users and tools find these folders by their names.
    assert (ROOT / name).is_dir()
    assert not (ROOT / name).is_symlink()


def test_no_module_is_imported_by_only_the_name_of_its_folder() -> None:
    # In tests, the root is on Python's path, so `import sql` would load a second copy of each module.
    assert [f"{path.relative_to(ROOT)}: {name}" for path in SOURCES for name in _plain_names(path)] == []


def _plain_names(path: Path) -> list[str]:
    names: list[str] = []
    text = path.read_text()
    if SUSPECT.search(text) is None:
        return names  # parsing all files takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGE_NAMES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGE_NAMES:
            names += [] if node.level else [str(node.module)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value):
            names.append(node.value)
    return names


def _is_module(text: str) -> bool:
    found = DOTTED.fullmatch(text)
    return found is not None and (ROOT / found[1] / f"{found[2]}.py").is_file()


@pytest.mark.slow
def test_the_wheel_brings_one_package_with_the_sql_the_page_and_the_types(wheels: dict[str, Path]) -> None:
    kept = {path.relative_to(ROOT) for name in PACKAGE_NAMES for path in (ROOT / name).rglob("*")}
    shipped = {f"{NAME}/{path.as_posix()}" for path in kept if path.suffix in SHIPPED}
    assert _files_of(wheels["server"]) == {*shipped, f"{NAME}/__init__.py", f"{NAME}/py.typed"}


@pytest.mark.exhaustive
def test_the_sdist_makes_the_same_wheel_without_links(wheels: dict[str, Path], tree: Path, tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tree, check=True, timeout=120)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        assert [member.name for member in packed if member.issym()] == []
        packed.extractall(tmp_path, filter="data")

    made = wheel_of(tmp_path / sdist.name.removesuffix(".tar.gz"))

    assert _files_of(made) == _files_of(wheels["server"])


@pytest.mark.slow
def test_the_wheel_of_the_client_contains_only_the_clients_package(wheels: dict[str, Path]) -> None:
    package = ROOT / "client" / "shardclock"
    shipped = {
        path.relative_to(ROOT / "client").as_posix()
        for path in package.rglob("*")
        if path.suffix in {".py", ".sql"} or path.name == "py.typed"
    }
    assert _files_of(wheels["client"]) == shipped


@pytest.mark.ray
@pytest.mark.exhaustive
def test_the_demo_works_from_the_wheel_in_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    # Given an environment with the wheels and their dependencies, without this tree
    empty = tmp_path / "empty"
    empty.mkdir()
    (site,) = installed.parent.glob("lib/python*/site-packages")
    asked = f"import pathlib, {NAME}; print(pathlib.Path({NAME}.__file__).parents[1])"
    found = subprocess.run(
        [installed / "python", "-P", "-c", asked], cwd=empty, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(site)

    # When the server's demo runs
    done = subprocess.run(
        [installed / "shardclock", "demo", "--json"],
        cwd=empty,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    # Then the demo fires its timers, and leaves no file in the environment
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["early"], verdict["lost"], verdict["double"]) == (0, 0, 0)
    assert verdict["fired"] >= 5_000
    assert (verdict["deliveries"]["delivered"], verdict["deliveries"]["dead"]) == (998, 2)
    assert list(empty.iterdir()) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("gone", "left"), [("shardclock", "metrics"), ("other", NAME)])
def test_the_server_and_another_distribution_with_a_package_metrics_keep_their_files(
    other: Path, gone: str, left: str
) -> None:
    pip(other, "check")
    pip(other, "uninstall", "-q", "-y", gone)

    asked = f"import {left}, shardclock; import importlib.util as u; print(u.find_spec('metrics') is not None)"
    found = subprocess.run([other / "python", "-P", "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(left == "metrics")


def _files_of(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
