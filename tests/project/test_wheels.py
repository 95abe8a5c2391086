"""Test the wheels: their bytes, their metadata, and the size of an installation."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

from k8s.image.leftovers import closure, normal
from tests.support import ROOT
from tests.support.distributions import MADE_AT
from tools.wheels import build_wheels, copy_sources

PROJECTS = {"server": ROOT, "client": ROOT / "client"}
CONFIGS = {name: tomllib.loads((folder / "pyproject.toml").read_text())["project"] for name, folder in PROJECTS.items()}
VERSION = CONFIGS["server"]["version"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MIB = 2**20


def metadata_of(wheel: Path) -> Message:
    packed = zipfile.ZipFile(wheel)
    (name,) = (it for it in packed.namelist() if it.endswith(".dist-info/METADATA"))
    return Parser().parsestr(packed.read(name).decode())


@pytest.mark.exhaustive
def test_the_same_sources_make_the_same_bytes_in_another_folder_at_another_time(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    again = copy_sources(tmp_path / "elsewhere" / "tree")
    for path in again.rglob("*.py"):
        path.touch()

    made = build_wheels(again, tmp_path / "dist", epoch=MADE_AT)

    for name, wheel in wheels.items():
        assert made[name].name == wheel.name
        assert _digest_of(made[name]) == _digest_of(wheel)
        for item in zipfile.ZipFile(wheel).infolist():
            assert (item.external_attr >> 16) & 0o777 in {0o644, 0o664}, item.filename


@pytest.mark.slow
@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_names_its_version_its_pythons_and_its_licences(wheels: dict[str, Path], name: str) -> None:
    found, config = metadata_of(wheels[name]), CONFIGS[name]

    assert wheels[name].name == f"{config['name'].replace('-', '_')}-{VERSION}-py3-none-any.whl"
    assert (found["Version"], found["Requires-Python"]) == (VERSION, "<3.15,>=3.11")
    named = found.get_all("Classifier", [])
    assert {it for it in named if re.search(r"Python :: 3\.", it)} == {
        f"Programming Language :: Python :: {it}" for it in PYTHONS
    }
    licences = set(found.get_all("License-File", []))
    assert licences == set(config["license-files"])
    packed = zipfile.ZipFile(wheels[name])
    for file in licences:
        (inside,) = (it for it in packed.namelist() if it.endswith(f".dist-info/licenses/{file}"))
        assert packed.read(inside) == (PROJECTS[name] / file).read_bytes()


def test_each_file_of_another_project_is_in_the_notice() -> None:
    foreign = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("gateway/**/*.min.*")}

    assert foreign
    assert set(re.findall(r"^(\S+): ", (ROOT / "NOTICE").read_text(), re.MULTILINE)) - {"sha256"} == foreign
    assert CONFIGS["server"]["license"] == "Apache-2.0 AND 0BSD"


def test_each_file_with_the_version_has_the_same_version() -> None:
    assert CONFIGS["client"]["version"] == VERSION
    assert f"shardclock-client=={VERSION}" in CONFIGS["server"]["dependencies"]
    assert f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()
    images = [*(ROOT / "docs").rglob("*.md"), ROOT / "Dockerfile"]
    tags = {it for path in images for it in re.findall(r"\bshardclock:(\d+\.\d+\.\d+)", path.read_text())}
    assert tags == {VERSION}
    files = {
        it for page in (ROOT / "docs").glob("*.md") for it in re.findall(r"shardclock-(\d\S+)-py3", page.read_text())
    }
    assert files <= {VERSION}


def test_an_installation_without_ray_has_no_development_tools_and_less_than_150_mib() -> None:
    tools = {normal(re.split(r"[<>=\[ ]", it)[0]) for it in CONFIGS["server"]["optional-dependencies"]["dev"]}
    needed = closure() - {"shardclock", "shardclock-client"}

    assert not (needed & (tools | {"ray", "playwright", "axe-playwright-python"}))
    # Our own files are counted in the tree, because a development environment has links to them. An installer that
    # compiles bytecode adds a fifth.
    own = sum(path.stat().st_size for folder in ("shardclock_server", "client/shardclock") for path in _files(folder))
    assert (own + sum(map(_size_of, needed))) / MIB < 150


def _files(folder: str) -> list[Path]:
    direct = [path.resolve() for path in (ROOT / folder).iterdir()]
    inside = [*direct, *(path for it in direct for path in it.rglob("*"))]
    return [path for path in inside if path.is_file() and path.suffix != ".pyc"]


def _size_of(name: str) -> int:
    files = [it for it in distribution(name).files or [] if it.suffix != ".pyc"]
    return sum(it.locate().stat().st_size for it in files)  # type: ignore[attr-defined]


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
