"""Compare the Dockerfile with the manifests, the lock file and the bill of materials.

The steps of the Dockerfile run without Docker.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from k8s.image.leftovers import closure, normal
from shardclock_server.cluster.settings import Settings
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
    return [rest for word, rest in instructions() if word == instruction]


def test_each_stage_starts_from_one_slim_python_whose_digest_is_named_once() -> None:
    name, _, image = arguments("ARG")[0].partition("=")
    assert name == "PYTHON"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", image)
    assert DOCKERFILE.count("sha256:") == 1
    assert {words.split()[0] for words in arguments("FROM")} == {"${PYTHON}", "locked"}


def test_the_layer_of_the_dependencies_does_not_depend_on_our_code() -> None:
    stages = ["", *re.split(r"^FROM .*\n", DOCKERFILE, flags=re.MULTILINE)[1:]]
    _, locked, dependencies, server, final = stages
    copied = re.findall(r"^COPY (\S+) \S+$", locked + dependencies, re.MULTILINE)
    assert copied == ["requirements.lock", "pyproject.toml", "client/pyproject.toml", "k8s/image/leftovers.py"]
    assert "COPY . ." in server
    assert re.findall(r"^COPY --from=(\w+)", final, re.MULTILINE) == ["dependencies", "server"]


def test_the_images_labels_name_the_version_and_the_licences_of_the_project() -> None:
    (text,) = arguments("LABEL")
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert labels.keys() == {"title", "description", "version", "revision", "licenses"}
    assert (labels["title"], labels["version"]) == (project["name"], project["version"])
    assert labels["licenses"] == project["license"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_images_health_check_is_the_readiness_of_the_exporter(status: int, code: int) -> None:
    (words,) = arguments("HEALTHCHECK")
    command = json.loads(words.partition("CMD ")[2])
    assert f"'SHARDCLOCK_METRICS_PORT', {Settings.model_fields['metrics_port'].default}" in command[-1]
    with answering(status) as (port, asked):
        environment = os.environ | {"SHARDCLOCK_METRICS_PORT": str(port)}
        done = subprocess.run([sys.executable, *command[1:]], env=environment, timeout=RUN_S, check=False)
    assert command[0] == "python"
    assert (done.returncode, asked) == (code, ["/readyz"])


def test_the_images_user_is_the_user_of_the_manifests() -> None:
    assert [it for it in instructions()[-4:] if it[0] != "HEALTHCHECK"] == [
        ("WORKDIR", "/tmp"),
        ("USER", "10001:10001"),
        ("CMD", '["shardclock", "--help"]'),
    ]
    users = {
        (pod.spec["securityContext"]["runAsUser"], pod.spec["securityContext"]["runAsGroup"])
        for path in ("overlays/prod", "overlays/prod/blue")
        for pod in pods(build(path))
        if any(container["image"].startswith("shardclock:") for container in pod.containers)
    }
    assert users == {(10001, 10001)}


def test_each_overlay_names_the_image_in_one_place(tmp_path: Path) -> None:
    # Given a copy of the manifests, in which each overlay's image file names a different image
    shutil.copytree(K8S, tmp_path / "k8s")
    for overlay in OVERLAYS:
        named = tmp_path / "k8s" / "overlays" / overlay / "image" / "kustomization.yaml"
        text = named.read_text().replace("newName: shardclock", "newName: registry.example/team/shardclock")
        named.write_text(text.replace(f"newTag: {VERSION}", "newTag: 9.9.9"))

    # Then all our containers run the different image, and no other file names our image with a version
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


def test_the_dockerfile_names_no_package_index_and_checks_every_hash() -> None:
    locked, ours = (step for step in arguments("RUN") if "pip install" in step)
    assert "--require-hashes --no-deps" in locked
    assert '--no-index --no-build-isolation --no-deps --prefix "$SERVER" ./client .' in ours
    assert "://" not in DOCKERFILE.replace("http://127.0.0.1", "")


def test_only_the_parts_of_the_image_go_into_the_build() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    programs = {f"k8s/image/{name}.py" for name in ("leftovers", "sbom")}
    beside = {"client", "pyproject.toml", "requirements.lock", project["project"]["readme"]} | programs
    assert let_in() == {*PACKAGE_NAMES, "shardclock_server"} | beside | set(project["project"]["license-files"])


def test_development_tools_are_left_over_and_runtime_packages_are_not() -> None:
    command = [sys.executable, str(K8S / "image" / "leftovers.py"), "ray"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_S)
    left = set(done.stdout.split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert names(project["optional-dependencies"]["dev"]) <= left
    runs = names(project["dependencies"]) | names(project["optional-dependencies"]["ray"])
    assert not (runs | {"pip", "shardclock"}) & left


@pytest.mark.exhaustive
def test_after_the_steps_the_program_runs_without_development_tools(tmp_path: Path) -> None:
    # Given an environment with all locked packages; the test links the installed packages and downloads nothing
    venv, tree, server = tmp_path / "venv", tmp_path / "tree", tmp_path / "server"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=RUN_S)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    shutil.rmtree(packages)
    without_ours = shutil.ignore_patterns("shardclock*", "__editable__*")
    here = sysconfig.get_path("purelib")
    shutil.copytree(here, packages, copy_function=os.link, symlinks=True, ignore=without_ours)
    for name in let_in():
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)

    # When the steps of both stages run unchanged
    environment = os.environ | {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "SERVER": str(server)}
    for part in ("--no-index", "pip check"):
        (step,) = (step for step in arguments("RUN") if part in step)
        command = ["/bin/sh", "-c", step]
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(server, venv, dirs_exist_ok=True)

    # Then the programs in the manifests exist and start, and the tools are removed
    for words in (["shardclock", "--help"], ["python", "-m", "ray.scripts.scripts", "--version"]):
        subprocess.run([str(venv / "bin" / words[0]), *words[1:]], cwd=tmp_path, check=True, timeout=RUN_S)
    left = {found.name.partition("-")[0].lower() for found in packages.glob("*.dist-info")}
    assert {"shardclock", "ray", "asyncpg"} <= left
    assert not {"mypy", "pytest", "hypothesis", "ruff", "pip"} & left
    # And the bill of materials lists the packages that are left
    listed = {
        it["name"].replace("-", "_").lower() for it in json.loads((venv / "sbom.cdx.json").read_text())["components"]
    }
    assert listed == {name.replace("-", "_") for name in left - {"shardclock"}}


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """Answer requests on loopback with a status; yield the port, and the list of the requested paths."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def let_in() -> set[str]:
    """List the names that .dockerignore admits into the build."""
    return {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[ ]", asked)[0].lower() for asked in requirements}


PRINT_S = 120
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = dict(re.findall(r"^(\S+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def printed() -> str:
    """Print the bill of materials of this environment, with Ray."""
    command = [sys.executable, str(ROOT / "k8s/image/sbom.py"), "ray"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=PRINT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bom(printed: str) -> Any:
    return json.loads(printed)


def test_the_schema_of_cyclonedx_accepts_the_bill_of_materials(printed: str, bom: Any) -> None:
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    version = import_module("cyclonedx.schema").SchemaVersion.V1_6
    assert import_module("cyclonedx.validation.json").JsonStrictValidator(version).validate_str(printed) is None


def test_the_bill_of_materials_lists_the_runtime_packages_with_their_locked_versions(bom: Any) -> None:
    found = {normal(it["name"]): it["version"] for it in bom["components"]}
    client = {"shardclock-client": PROJECT["version"]}
    assert found == {name: LOCKED[name] for name in closure("ray") - {"shardclock", "shardclock-client"}} | client
    assert len(found) > 40


def test_each_package_has_an_address_and_most_have_a_licence(bom: Any) -> None:
    others = [it for it in bom["components"] if it["name"] != "shardclock-client"]
    assert [it["name"] for it in others if it.get("purl") != f"pkg:pypi/{normal(it['name'])}@{it['version']}"] == []
    assert len([it for it in others if it.get("licenses")]) / len(others) > 0.9


def test_the_bill_of_materials_describes_the_project_and_its_direct_requirements(bom: Any) -> None:
    root = bom["metadata"]["component"]
    assert (root["name"], root["version"]) == (PROJECT["name"], PROJECT["version"])
    assert root["licenses"][0]["expression"] == PROJECT["license"]
    edges = {it["ref"]: it.get("dependsOn", []) for it in bom["dependencies"]}
    direct = {normal(ref.partition("==")[0]) for ref in edges[root["bom-ref"]]}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["ray"]]
    assert direct == {normal(re.split(r"[<>=\[ ]", line)[0]) for line in wanted}
    assert {ref for its in edges.values() for ref in its} <= edges.keys()


def test_the_bill_of_materials_names_no_path_of_the_build_machine(printed: str) -> None:
    assert "file:" not in printed
    assert str(ROOT) not in printed
