"""Instances are cancelled by their business key: a single instance immediately, several only with --yes."""

from __future__ import annotations

import asyncio

from shardclock_server.service.processes import deploy
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE
from tests.support.program import Shell

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


def start(shell: Shell, business_key: str) -> int:
    """Start an instance; no engine runs, so the instance does not advance."""

    async def make() -> None:
        async with Session(shell.dsn, application="test") as session:
            await deploy(session, MODEL, resource="p.bpmn")

    asyncio.run(make())
    return int(shell("processes", "start", "p", "--business-key", business_key, "--json").json["instance_key"])


def cancelled(shell: Shell) -> list[int]:
    """Return the instances with a cancel signal."""
    told = (
        "select process_instance_key as key from shardclock.deliveries where payload ->> 'kind' = 'cancel' order by 1"
    )
    return [row["key"] for row in shell.sql(told)]


def test_a_single_instance_is_cancelled_at_once(shell: Shell) -> None:
    key, _ = start(shell, "order-42"), start(shell, "order-43")

    done = shell("processes", "cancel", "--business-key", "order-42")

    assert (done.code, done.err, cancelled(shell)) == (DONE, "1 instance is told to end\n", [key])


def test_several_instances_are_cancelled_only_with_yes(shell: Shell) -> None:
    keys = [start(shell, "order-42") for _ in range(3)]

    asked = shell("processes", "cancel", "--business-key", "order-42")
    assert (asked.code, asked.err) == (
        NOT_DONE, "3 instances would be cancelled; nothing was changed; add --yes to do it\n",
    )  # fmt: skip
    assert cancelled(shell) == []
    none = shell("processes", "cancel", "--business-key", "order-42", "--process", "q")
    assert (none.code, none.err) == (NOT_DONE, "no instance with this business key starts or runs\n")
    done = shell("processes", "cancel", "--business-key", "order-42", "--process", "p", "--yes", "--json")
    assert (done.code, done.json["instance_keys"]) == (DONE, keys[::-1])
    assert cancelled(shell) == keys


def test_a_key_and_a_business_key_are_refused_together(shell: Shell) -> None:
    for given in ([], ["7", "--business-key", "order-42"], ["7", "--process", "p"], ["7", "--tenant", "acme"]):
        assert shell("processes", "cancel", *given).code == BAD_INPUT, given
