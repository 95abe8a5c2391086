"""The file for Docker Compose fits the schema of Compose, and names existing settings and programs."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped] # kubernetes-validate brings it
import pytest
import yaml  # type: ignore[import-untyped] # as above

from shardclock_server.cli.commands import COMMANDS
from shardclock_server.cluster.settings import load_settings, unknown_settings
from shardclock_server.workers.app import find_app
from tests.support import ROOT

FOLDER = ROOT / "examples" / "compose"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: it for name, it in SERVICES.items() if it["image"].startswith("shop:")}
SCHEMA = json.loads((Path(__file__).parent / "schemas" / "compose-spec.json").read_text())
CHECK = jsonschema.Draft7Validator(SCHEMA)


def test_the_file_fits_the_schema_of_compose() -> None:
    assert [f"{'.'.join(map(str, it.absolute_path))}: {it.message}" for it in CHECK.iter_errors(FILE)] == []


@pytest.mark.parametrize(("key", "value"), [("comand", ["shardclock"]), ("ports", 9841), ("restart", True)])
def test_the_schema_refuses_a_wrong_key_or_value(key: str, value: object) -> None:
    wrong = deepcopy(FILE)
    wrong["services"]["shardclock"][key] = value

    assert [*CHECK.iter_errors(wrong)]


def test_its_settings_are_valid_and_its_commands_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in OURS.values():
        given = service["environment"]
        assert unknown_settings(given) == []
        with monkeypatch.context() as environment:
            for name, value in given.items():
                environment.setenv(name, re.sub(r"\$\{.*?\}", "secret", value))
            load_settings()
        assert service["command"][0] == "shardclock"
        assert service["command"][1] in COMMANDS


def test_the_server_starts_after_the_migration_of_a_healthy_postgres() -> None:
    assert OURS["shardclock"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert OURS["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert "healthcheck" in SERVICES["postgres"]


def test_the_ports_are_open_only_to_this_machine_and_the_containers_have_few_rights() -> None:
    ports = [port for it in SERVICES.values() for port in it.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    for service in OURS.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_the_example_app_has_a_handler_and_a_job_and_the_dockerfile_its_environment() -> None:
    given = OURS["shardclock"]["environment"]
    text = (FOLDER / "Dockerfile").read_text()

    app = find_app(given["SHARDCLOCK_APP"], FOLDER)

    assert ([it.target for it in app.handlers], [it.name for it in app.jobs]) == (["order.expired"], ["refresh"])
    assert given["SHARDCLOCK_PYTHON"].removesuffix("/bin/python") in text
