"""Targets are listed, and timers are listed and changed by their target."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.cli_asserts import DONE, assert_refused
from tests.support.deliveries import HANDLER, add_deliveries, bury, declare
from tests.support.program import Shell

OTHER = "cart.left"


@pytest.fixture
def targets(shell: Shell) -> None:
    """Declare a handler, withdraw another handler, and add an endpoint."""
    asyncio.run(declare(shell.dsn, HANDLER, OTHER))
    asyncio.run(declare(shell.dsn, HANDLER))
    shell("endpoints", "add", "billing", "--url", "https://example.com/", "--tenant", "acme")


@pytest.fixture
def timers(shell: Shell) -> None:
    """Schedule one timer for each of three targets."""
    asyncio.run(declare(shell.dsn, HANDLER, OTHER))
    for target in ("log", HANDLER, OTHER):
        shell("schedule", "--at", "2031-01-01T00:00:00Z", "--target", target, "--name", target)


def names(shell: Shell, *options: object) -> list[str]:
    """Return the names of listed timers."""
    return [timer["name"] for timer in shell("list", *options, "--json").json["timers"]]


@pytest.mark.usefixtures("targets")
def test_each_target_is_listed_with_its_tenant_its_state_and_its_deliveries_and_dead_letters(shell: Shell) -> None:
    asyncio.run(add_deliveries(shell.dsn, 2))
    asyncio.run(bury(shell.dsn, 3))

    table = [line.split() for line in shell("targets").out.splitlines()]
    found = shell("targets", "--json").json["targets"]

    assert table == [
        ["target", "kind", "tenant", "state", "on", "the", "way", "dead", "letters", "workers"],
        ["log", "log", "all", "enabled", "0", "0"],
        [OTHER, "handler", "all", "withdrawn", "0", "0", "0"],
        [HANDLER, "handler", "all", "enabled", "2", "3", "0"],
        ["webhook:billing", "webhook", "acme", "enabled", "0", "0"],
    ]
    assert [(it["target"], it["tenant_id"], it["waiting"], it["dead_letters"]) for it in found[2:]] == [
        (HANDLER, None, 2, 3), ("webhook:billing", "acme", 0, 0),
    ]  # fmt: skip
    assert [it["target"] for it in shell("targets", "--tenant", "zoo", "--json").json["targets"]] == [
        "log",
        OTHER,
        HANDLER,
    ]
    assert len(shell("targets", "-n", 1, "--json").json["targets"]) == 1


@pytest.mark.usefixtures("timers")
def test_a_change_by_target_affects_only_its_timers(shell: Shell) -> None:
    of_target = ("--all", "--target", HANDLER, "--yes", "--json")
    one = {"matched": 1, "changed": 1}

    for verb in (["pause"], ["resume"], ["reschedule", "--shift", "PT1H"], ["cancel"]):
        done = shell(*verb, *of_target)
        assert (done.code, done.json | one) == (DONE, done.json), verb

    assert names(shell) == ["log", OTHER]
    assert names(shell, "--state", "canceled") == [HANDLER]


def test_a_target_without_all_is_refused(shell: Shell) -> None:
    sentence = "a filter, such as --name-prefix or --target, is for many timers; add --all"
    assert_refused(shell("cancel", "--target", HANDLER), sentence)
    assert_refused(shell("cancel", 7, "--target", HANDLER), "choose either one timer")
