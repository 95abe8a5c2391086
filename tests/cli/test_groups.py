"""Each group of commands has a command `list`; the group's name without a command runs `list`."""

from __future__ import annotations

import pytest

from tests.support.cli_asserts import DONE
from tests.support.program import Shell

DOWN = "postgresql://127.0.0.1:1/nowhere"
GROUPS = [
    "consumers",
    "dead-letters",
    "deliveries",
    "endpoints",
    "jobs",
    "keys",
    "processes",
    "schedules",
    "tasks",
    "tenants",
]


def options_of(page: str) -> str:
    """Return the options of a help page."""
    return page.partition("Options:\n")[2].partition("\n\n")[0].strip()


def test_the_name_of_a_command_group_accepts_the_options_of_the_groups_list(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(DOWN, capsys)
    for group in GROUPS:
        alone, listed = shell(group, "--help"), shell(group, "list", "--help")
        assert (alone.code, listed.code) == (DONE, DONE)
        assert "--json" in options_of(listed.out)
        assert options_of(alone.out) == options_of(listed.out), group


def test_the_name_of_a_command_group_without_a_command_prints_the_list(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(dsn, capsys)
    shell("endpoints", "add", "billing", "--url", "https://example.com/hook")

    alone, listed = shell("endpoints", "--json"), shell("endpoints", "list", "--json")

    assert [it["name"] for it in listed.json["endpoints"]] == ["billing"]
    assert alone.json == listed.json
