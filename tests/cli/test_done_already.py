"""Prove that a verb whose aim is reached already ends with exit code 0, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from service.processes import deploy
from sql.session import Session
from tests.support.bpmn import model
from tests.support.cli_asserts import DONE
from tests.support.deliveries import add_deliveries
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.program import Shell


def job(shell: Shell) -> object:
    asyncio.run(declare(shell.dsn, job_spec("report")))
    return "report"


def endpoint(shell: Shell) -> object:
    shell("endpoints", "add", "billing", "--url", "https://example.com/")
    return "billing"


def key(shell: Shell) -> object:
    return shell("keys", "add", "webshop", "--scope", "read", "--json").json["prefix"]


def timer(shell: Shell) -> object:
    return shell("schedule", "--in", "PT1H", "--json").json["timer_key"]


def delivery(shell: Shell) -> object:
    asyncio.run(add_deliveries(shell.dsn, 1))
    return shell("deliveries", "--json").json["deliveries"][0]["timer_key"]


def definition(shell: Shell) -> object:
    async def make() -> int:
        async with Session(shell.dsn, application="test") as session:
            (deployed,) = await deploy(session, model('<startEvent id="s"/>'), resource="p.bpmn")
        return deployed.definition_key

    return asyncio.run(make())


def nothing(_: Shell) -> object:
    return "--yes"


@pytest.mark.parametrize(
    ("words", "made", "said"),
    [
        ("jobs disable", job, "DISABLED"),
        ("jobs enable", job, "SCHEDULED"),
        ("release", nothing, "nothing to release: it is not on hold"),
        ("pause", timer, "PAUSED"),
        ("cancel", timer, "CANCELED"),
        ("endpoints disable", endpoint, "was disabled already"),
        ("endpoints enable", endpoint, "was enabled already"),
        ("deliveries cancel", delivery, "is DISCARDED"),
        ("keys revoke", key, "was revoked already"),
        ("processes delete", definition, "was deleted already"),
    ],
)
def test_what_is_so_already_is_done(shell: Shell, words: str, made: Callable[[Shell], object], said: str) -> None:
    which = made(shell)
    shell(*words.split(), which)

    again = shell(*words.split(), which)

    assert again.code == DONE
    assert said in again.out + again.err
