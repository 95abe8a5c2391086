"""Commands list dead letters, redrive them at a rate, and discard them; each change leaves a record of its author."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest import mock

import pytest

from shardclock.api.refusals.deliveries import UNKNOWN_DEAD_LETTER
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.sql.deliveries.dead_letters import discard_dead_letters
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.cli_asserts import DONE, NOT_DONE, NOT_THERE, assert_code, assert_refused
from tests.support.deliveries import HANDLER, bury, dead, deliver, serving_worker
from tests.support.factories import HolderClient, add_holder
from tests.support.program import Shell

OTHER = "cart.left"
WAY_ON = (
    "a gateway continues operation 1 in a minute; if no gateway runs: `shardclock operations cancel 1`, then repeat the"
    " same command for the rest"
)


@pytest.fixture
def letters(shell: Shell) -> list[int]:
    """Turn three deliveries into dead letters; the third has another target and another tenant. Return the keys."""

    async def let_die() -> list[int]:
        dsn = shell.dsn
        await add_holder(dsn, 1)
        keys = []
        async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn, targets=(HANDLER, OTHER)) as worker:
            for target, tenant in ((HANDLER, "default"), (HANDLER, "default"), (OTHER, "acme")):
                keys += await deliver(shard, target=target, tenant_id=f"'{tenant}'", payload="'{\"order\": 42}'")
                await worker.settle(*map(dead, await worker.take()))
        return keys

    return asyncio.run(let_die())


def waiting(shell: Shell) -> list[dict[str, Any]]:
    """Read the deliveries that have not ended."""
    rows = shell.sql("select * from shardclock.deliveries order by next_attempt_at, timer_key")
    return [dict(row) for row in rows]


def last_records(shell: Shell, intent: str) -> dict[int, dict[str, Any]]:
    """Read the details of the records of an intent, by timer."""
    text = "select timer_key, detail from shardclock.command_log where intent = $1"
    return {row["timer_key"]: json.loads(row["detail"]) for row in shell.sql(text, intent)}


def test_dead_letters_are_listed_the_most_recent_first_with_reason_and_failures(
    shell: Shell, letters: list[int]
) -> None:
    listed = shell("dead-letters", "--json").json["dead_letters"]

    assert [letter["timer_key"] for letter in listed] == letters[::-1]
    assert (listed[0]["target"], listed[0]["tenant_id"], listed[0]["payload"]) == (OTHER, "acme", {"order": 42})
    assert listed[0]["reason"] == "it raised too often"
    assert [failure["attempt"] for failure in listed[0]["failures"]] == [1]
    assert [
        it["timer_key"] for it in shell("dead-letters", "--target", HANDLER, "--json").json["dead_letters"]
    ] == letters[1::-1]
    assert "it raised too often" in shell("dead-letters", "--tenant", "acme").out
    assert len(shell("dead-letters", "--reason-line", "it raised too often", "--json").json["dead_letters"]) == 3
    assert shell("dead-letters", "--reason-line", "it raised", "--json").json["dead_letters"] == []
    grouped = shell("dead-letters", "groups", "--json").json
    assert [(it["target"], it["tenant_id"], it["dead_letters"]) for it in grouped["groups"]] == [
        (HANDLER, "default", 2),
        (OTHER, "acme", 1),
    ]
    assert (grouped["counted"], grouped["is_all"]) == (3, True)
    assert "it raised too often" in shell("dead-letters", "groups").out
    assert shell("dead-letters", "--died-before", "2020-01-01T00:00Z").err == "there are no such dead letters\n"


def test_a_redrive_without_yes_is_a_dry_run(shell: Shell, letters: list[int]) -> None:
    said = shell("dead-letters", "redrive", "--all", "--target", HANDLER)

    assert said.code == NOT_DONE
    assert said.err == (
        f"2 dead letters would be put back, of the target {HANDLER}; nothing was changed; add --yes to do it\n"
    )
    assert waiting(shell) == []


def test_the_number_of_tenants_is_reported_if_there_are_several(shell: Shell, letters: list[int]) -> None:
    every, one = (
        shell("dead-letters", "discard", "--all"),
        shell("dead-letters", "discard", "--all", "--tenant", "acme"),
    )
    done = shell("dead-letters", "redrive", "--all", "--yes")

    targets = f"of the targets {OTHER} and {HANDLER}"
    assert every.err.startswith(f"3 dead letters of 2 tenants would be discarded, {targets}; nothing was changed")
    assert one.err.startswith(f"1 dead letter would be discarded, of the target {OTHER}; nothing was changed")
    assert done.err == "put back: 3 dead letters of 2 tenants are due again\n"


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_an_unknown_dead_letter_is_refused(shell: Shell, verb: str) -> None:
    assert_code(shell("dead-letters", verb, 999, "--json"), UNKNOWN_DEAD_LETTER)


def test_a_limited_redrive_reports_when_the_command_may_be_repeated(shell: Shell, letters: list[int]) -> None:
    redrive = ("dead-letters", "redrive", "--all", "--limit", 2, "--rate", 1)

    planned, done = shell(*redrive, "--json").json, shell(*redrive, "--yes")

    assert (planned["more"], planned["again_in_s"]) == (True, 2)
    assert done.err == (
        "put back: 2 dead letters are due again; more rows match: repeat the command in 2 s, after these rows are due\n"
    )
    assert [it["timer_key"] for it in waiting(shell)] == letters[:2]


def test_a_broken_run_reports_its_changes(shell: Shell, letters: list[int]) -> None:
    asked: list[int] = []

    async def breaks(session: Session, keys: Sequence[int], **how: Any) -> list[int]:
        asked.extend(keys)
        if len(asked) > 1:
            raise StoreUnavailable("no answer")
        return await discard_dead_letters(session, keys, **how)

    with (
        mock.patch("shardclock_server.cli.dead_letters.DeadLetterRun", partial(DeadLetterRun, batch=1)),
        mock.patch("shardclock_server.service.operation_verbs.discard_dead_letters", breaks),
    ):
        broken = shell("dead-letters", "discard", "--all", "--yes")

    assert broken.code == NOT_THERE
    assert broken.err.splitlines() == [
        "1 dead letter discarded",
        "up to 1 more dead letters may have been changed: the answer was lost",
        f"shardclock: Postgres does not answer (no answer); {WAY_ON}",
    ]
    assert asked == letters[:2]


def test_a_discarded_dead_letter_leaves_a_record_with_author_and_reason(shell: Shell, letters: list[int]) -> None:
    assert shell("dead-letters", "discard", letters[2], "--reason", "refunded by hand", "--yes").code == DONE

    assert [it["timer_key"] for it in shell("dead-letters", "--json").json["dead_letters"]] == letters[1::-1]
    assert last_records(shell, "DISCARDED") == {letters[2]: {"by": "test_shard", "reason": "refunded by hand"}}
    assert waiting(shell) == []


def test_an_invalid_command_is_refused_in_one_line(shell: Shell) -> None:
    for words, said in (
        ("redrive", "choose either one dead letter"),
        ("redrive 7 --all", "choose either one dead letter"),
        ("redrive --all --rate 0", "--rate"),
        ("discard nothing", "'nothing'"),
        ("redrive --all --died-before yesterday", "--died-before"),
    ):
        assert_refused(shell("dead-letters", *words.split()), said)


def test_a_dead_letter_of_a_disabled_endpoint_is_refused_unless_enable_is_given(shell: Shell) -> None:
    assert shell("endpoints", "add", "billing", "--url", "https://example.com/", "--tenant", "acme").code == DONE
    assert shell("endpoints", "disable", "billing", "--tenant", "acme", "--reason", "it moves").code == DONE
    asyncio.run(bury(shell.dsn, 2, "webhook:billing"))

    refused = shell("dead-letters", "redrive", 1, "--yes")
    assert (refused.code, "1 is not redriven" in refused.err, "; or redrive with --enable" in refused.err) == (
        NOT_DONE, True, True
    )  # fmt: skip
    done = shell("dead-letters", "redrive", "--all", "--enable", "--yes")
    assert (done.code, done.err) == (DONE, "put back: 2 dead letters are due again\n")
