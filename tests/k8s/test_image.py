"""Compare the Dockerfile with the manifests and the lock, and run its steps that need no docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.support import PACKAGE_NAMES, ROOT
from tests.support.manifests import K8S, OVERLAYS, build, pods

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUN_S, BUILD_S = 60, 300


def instructions() -> list[tuple[str, str]]:
    """Read the Dockerfile's instructions, with lines that end in a backslash joined."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def arguments(instruction: str) -> list[str]:
    """List the arguments of the instructions of a kind."""
    return [rest for word, rest in instructions() if word == instruction]


def test_each_stage_starts_from_the_same_pinned_slim_python() -> None:
    images = {words.split()[0] for words in arguments("FROM")}
    (image,) = images
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", image)
    assert len(arguments("FROM")) == 2


def test_its_user_is_the_user_of_the_manifests() -> None:
    assert instructions()[-2:] == [("USER", "10001:10001"), ("CMD", '["shardclock", "--help"]')]
    users = {
        (pod.spec["securityContext"]["runAsUser"], pod.spec["securityContext"]["runAsGroup"])
        for path in ("overlays/prod", "overlays/prod/blue")
        for pod in pods(build(path))
        if any(container["image"].startswith("shardclock:") for container in pod.containers)
    }
    assert users == {(10001, 10001)}


def test_each_overlay_names_the_image_in_one_place(tmp_path: Path) -> None:
    # Given the manifests with another image in the only file with its name
    shutil.copytree(K8S, tmp_path / "k8s")
    for overlay in OVERLAYS:
        named = tmp_path / "k8s" / "overlays" / overlay / "image" / "kustomization.yaml"
        text = named.read_text().replace("newName: shardclock", "newName: registry.example/team/shardclock")
        named.write_text(text.replace(f"newTag: {VERSION}", "newTag: 9.9.9"))

    # Then all our containers run this image, and no other file names it with a version
    for overlay in OVERLAYS:
        for part in ("", "/blue", "/green"):
            ours = {
                container["image"]
                for pod in pods(build(str(tmp_path / "k8s" / "overlays" / f"{overlay}{part}")))
                for container in pod.containers
                if "shardclock" in container["image"]
            }
            assert ours == {"registry.example/team/shardclock:9.9.9"}
    # A chart's own file names the release that the chart belongs to.
    named_files = (found for found in K8S.rglob("*.yaml") if found.name != "Chart.yaml")
    image = re.compile(rf"(newName: shardclock\s+newTag: |\bshardclock:){re.escape(VERSION)}\b")
    files = (found for found in named_files if image.search(found.read_text()))
    assert {str(found.relative_to(K8S)) for found in files} == {
        f"overlays/{overlay}/image/kustomization.yaml" for overlay in OVERLAYS
    }


def test_it_names_no_package_index_and_checks_every_hash() -> None:
    locked, ours = (step for step in arguments("RUN") if "pip install" in step)
    assert "--require-hashes --no-deps" in locked
    assert "--no-index --no-build-isolation --no-deps ./client ." in ours
    assert "://" not in DOCKERFILE


def test_only_the_parts_of_the_image_go_into_the_build() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    beside = {"client", "pyproject.toml", "requirements.lock", project["project"]["readme"], "k8s/image/leftovers.py"}
    assert let_in() == {*PACKAGE_NAMES, "shardclock_server"} | beside | set(project["project"]["license-files"])


def test_development_tools_are_left_over_and_runtime_packages_are_not() -> None:
    command = [sys.executable, str(K8S / "image" / "leftovers.py"), "shardclock[ray]"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_S)
    left = set(done.stdout.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert names(project["optional-dependencies"]["dev"]) <= left
    runs = names(project["dependencies"]) | names(project["optional-dependencies"]["ray"])
    assert not (runs | {"pip", "shardclock"}) & left


@pytest.mark.exhaustive
def test_after_the_builder_s_last_step_the_program_runs_without_development_tools(tmp_path: Path) -> None:
    # Given the builder's environment with all locked packages, here linked instead of downloaded
    venv, tree = tmp_path / "venv", tmp_path / "tree"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=RUN_S)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    shutil.rmtree(packages)
    shutil.copytree(sysconfig.get_path("purelib"), packages, copy_function=os.link, symlinks=True)
    for name in let_in():
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)

    # When the step runs unchanged
    (step,) = (step for step in arguments("RUN") if "--no-index" in step)
    path = {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", step],
        cwd=tree,
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    # Then the programs in the manifests exist and start, and the tools are removed
    for words in (["shardclock", "--help"], ["python", "-m", "ray.scripts.scripts", "--version"]):
        subprocess.run([str(venv / "bin" / words[0]), *words[1:]], cwd=tmp_path, check=True, timeout=RUN_S)
    left = {found.name.partition("-")[0].lower() for found in packages.glob("*.dist-info")}
    assert {"shardclock", "ray", "asyncpg"} <= left
    assert not {"mypy", "pytest", "hypothesis", "ruff", "pip"} & left


def let_in() -> set[str]:
    """List the names that .dockerignore admits into the build."""
    return {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}


def names(requirements: list[str]) -> set[str]:
    """Return the names in a list of requirements."""
    return {re.split(r"[<>=\[ ]", asked)[0].lower() for asked in requirements}
