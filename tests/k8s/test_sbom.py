"""Test the bill of materials of the image: its packages are those of the lock, and CycloneDX's schema accepts it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from typing import Any

import pytest

from k8s.image.leftovers import closure, normal
from tests.support import ROOT

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


def test_the_schema_of_cyclonedx_accepts_it(printed: str, bom: Any) -> None:
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    version = import_module("cyclonedx.schema").SchemaVersion.V1_6
    assert import_module("cyclonedx.validation.json").JsonStrictValidator(version).validate_str(printed) is None


def test_it_lists_the_packages_that_run_each_with_its_locked_version(bom: Any) -> None:
    found = {normal(it["name"]): it["version"] for it in bom["components"]}
    client = {"shardclock-client": PROJECT["version"]}
    assert found == {name: LOCKED[name] for name in closure("ray") - {"shardclock", "shardclock-client"}} | client
    assert len(found) > 40


def test_each_package_has_an_address_and_most_have_a_licence(bom: Any) -> None:
    others = [it for it in bom["components"] if it["name"] != "shardclock-client"]
    assert [it["name"] for it in others if it.get("purl") != f"pkg:pypi/{normal(it['name'])}@{it['version']}"] == []
    assert len([it for it in others if it.get("licenses")]) / len(others) > 0.9


def test_it_describes_the_project_and_its_direct_requirements(bom: Any) -> None:
    root = bom["metadata"]["component"]
    assert (root["name"], root["version"]) == (PROJECT["name"], PROJECT["version"])
    assert root["licenses"][0]["expression"] == PROJECT["license"]
    edges = {it["ref"]: it.get("dependsOn", []) for it in bom["dependencies"]}
    direct = {normal(ref.partition("==")[0]) for ref in edges[root["bom-ref"]]}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["ray"]]
    assert direct == {normal(re.split(r"[<>=\[ ]", line)[0]) for line in wanted}
    assert {ref for its in edges.values() for ref in its} <= edges.keys()


def test_it_names_no_path_of_the_machine_that_builds_it(printed: str) -> None:
    assert "file:" not in printed
    assert str(ROOT) not in printed
