"""Prove that one request schedules exactly one timer, even if the connection fails at any point."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest

from shardclock.api.codes import NAME_TAKEN
from shardclock_server.sql.clients import planned, writing
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, pause_timer
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.model import NewTimer
from tests.support.factories import HolderClient, add_holder, ends, intents, query, value, waits
from tests.support.roles import OPERATOR
from tests.support.sql_client import session

HOUR = timedelta(hours=1)


def timer(**fields: object) -> NewTimer:
    when = {"delay": "PT1H"} if fields.keys().isdisjoint({"due_date", "delay", "schedule"}) else {}
    return NewTimer.from_fields({**when, **fields})


def keys_of(outcomes: Sequence[Scheduled | Refused]) -> list[int]:
    return [it.timer_key for it in outcomes if isinstance(it, Scheduled)]


async def test_outcomes_come_in_the_order_of_the_timers_and_every_column_is_kept(each_dsn: str) -> None:
    asked = [
        timer(due_date="2030-01-31T08:00:00Z", name="a", tenant_id="acme", payload={"order": [1, "ü"]}),
        timer(due_date="2020-01-01T00:00:00Z", timer_type="BOUNDARY", target_element_id="b1", process_instance_key=7),
        timer(schedule="R3/PT1M", element_instance_key=8, missed="skip"),
        timer(schedule="0 8 * * *", zone="Europe/Berlin"),
    ]

    async with session(each_dsn) as client:
        drawn = await draw_keys(client, 4)
        outcomes = await schedule_timers(client, drawn, asked)

    assert keys_of(outcomes) == drawn.keys
    rows = await query(each_dsn, "select * from shardclock.timers order by timer_key")
    assert [row["due_date"] for row in rows] == [it.due_date for it in outcomes if isinstance(it, Scheduled)]
    first, second, third, fourth = (dict(row) for row in rows)
    assert first["due_date"] == datetime(2030, 1, 31, 8, tzinfo=UTC)
    assert (first["name"], first["tenant_id"], first["payload"]) == ("a", "acme", '{"order": [1, "ü"]}')
    assert (second["timer_type"], second["target_element_id"], second["process_instance_key"]) == ("BOUNDARY", "b1", 7)
    assert (third["name"], third["schedule"], third["repetitions"]) == (f"schedule-{drawn.keys[2]}", "R3/PT1M", 3)
    assert (third["anchor"], third["due_date"]) == (drawn.at, drawn.at + timedelta(minutes=1))
    assert (third["anchor_occurrence"], third["missed"], third["element_instance_key"]) == (0, "skip", 8)
    assert (fourth["anchor"], fourth["anchor_occurrence"], fourth["missed"]) == (fourth["due_date"], 1, "fire_once")
    assert [row["zone"] for row in rows] == [None, None, "UTC", "Europe/Berlin"]
    assert {(row["target"], row["occurrence"], row["claimed_by"]) for row in rows} == {("log", 1, None)}


async def test_delays_are_counted_by_the_clock_of_postgres_on_the_calendar_of_their_zone(dsn: str) -> None:
    delays = ["PT0S", "P1DT0.000001S", "P1M", "P6M"]
    zones = ["UTC", "Europe/Berlin"]
    async with HolderClient(dsn) as client:
        drawn = await draw_keys(client.session, len(delays) * 2)
        await client.begin()
        now = await client.value("select now()")
        asked = [timer(delay=delay, zone=zone) for delay in delays for zone in zones]
        outcomes = await schedule_timers(client.session, drawn, asked)
        await client.commit()

    expected = [add_duration(now, parse_duration(delay), ZoneInfo(zone)) for delay in delays for zone in zones]
    assert [it.due_date for it in outcomes if isinstance(it, Scheduled)] == expected


async def test_schedules_are_counted_from_the_draw_of_their_keys(dsn: str) -> None:
    async with session(dsn) as client:
        drawn = await draw_keys(client, 1)
        long_ago = drawn._replace(at=datetime(2020, 2, 29, 12, tzinfo=UTC))

        (outcome,) = await schedule_timers(client, long_ago, [timer(schedule="R/P1Y")])

    assert outcome == Scheduled(drawn.keys[0], datetime(2021, 2, 28, 12, tzinfo=UTC))


async def test_only_the_timer_with_a_used_name_is_refused(dsn: str) -> None:
    async with session(dsn) as client:
        await schedule_timers(client, await draw_keys(client, 1), [timer(name="taken")])
        drawn = await draw_keys(client, 4)
        asked = [timer(), timer(name="taken"), timer(name="taken", tenant_id="other"), timer(name="twice")]

        twice = Drawn([*drawn.keys, drawn.keys[-1] + 1000], drawn.at)
        outcomes = await schedule_timers(client, twice, [*asked, timer(name="twice")])

    assert [type(it) for it in outcomes] == [Scheduled, Refused, Scheduled, Scheduled, Refused]
    assert outcomes[1] == Refused.of(NAME_TAKEN, name="taken", tenant_id="default")
    assert await value(dsn, "select count(*) from shardclock.timers") == 4


async def test_an_empty_batch_needs_no_statement(dsn: str) -> None:
    async with session(dsn) as client:
        assert await schedule_timers(client, Drawn([], datetime.now(UTC)), []) == []


async def test_a_repeated_request_with_the_same_keys_adds_no_timer_in_any_state(dsn: str) -> None:
    end = (datetime.now(UTC) + timedelta(seconds=150)).isoformat()
    asked = {
        "fired": timer(delay="PT0S", name="n"),
        "repeated": timer(schedule="R/PT1H"),
        "skipped": timer(schedule=f"R/PT1M/{end}", missed="skip"),
        "canceled": timer(),
        "paused": timer(),
    }
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as shard:
        drawn = await draw_keys(shard.session, len(asked))
        keys = dict(zip(asked, drawn.keys, strict=True))
        first = await schedule_timers(shard.session, drawn, list(asked.values()))
        shard.now = await shard.value("select now() + interval '1 hour'")
        await cancel_timer(shard.session, TimerRef(keys["canceled"]))
        await pause_timer(shard.session, TimerRef(keys["paused"]))
        await shard.fire((await shard.take()).claimed)

        again = await schedule_timers(shard.session, drawn, list(asked.values()))

    assert again == first
    done = {
        "fired": "TRIGGERED",
        "repeated": "TRIGGERED",
        "skipped": "SKIPPED",
        "canceled": "CANCELED",
        "paused": "PAUSED",
    }
    assert await intents(dsn) == {(keys[name], intent): 1 for name, intent in done.items()}
    left = await query(dsn, "select occurrence, name from shardclock.timers order by occurrence")
    assert [tuple(row) for row in left] == [(1, None), (2, f"schedule-{keys['repeated']}")], "the next one, no more"


async def test_timers_that_fire_while_they_are_sent_again_are_not_made_twice(dsn: str) -> None:
    # Given a batch that Postgres committed, though its sender got no answer
    asked = [timer(name="first"), timer(delay="PT0S")]
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard, HolderClient(dsn) as stranger, HolderClient(dsn) as client:
        drawn = await draw_keys(client.session, 2)
        await schedule_timers(client.session, drawn, asked)
        # and an open transaction that has then cancelled the batch's first timer.
        await stranger.begin()
        await stranger.cancel(timer_key=drawn.keys[0])

        # When the batch is sent again, and a shard fires the second timer while the batch waits,
        sending = await waits(client, schedule_timers(client.session, drawn, asked))
        await shard.take(horizon_s=0, fire_overdue=True)
        await stranger.commit()
        outcomes = await ends(sending)
        await shard.take(horizon_s=0, fire_overdue=True)

    # Then each timer exists only once.
    assert all(isinstance(it, Scheduled) for it in outcomes)
    assert await value(dsn, "select array_agg(timer_key) from shardclock.timers") is None
    assert await intents(dsn) == {(drawn.keys[0], "CANCELED"): 1, (drawn.keys[1], "TRIGGERED"): 1}


async def test_a_second_attempt_waits_for_an_attempt_that_is_under_way(dsn: str) -> None:
    # Given an attempt that has not committed yet. One of its timers will fire when it commits.
    asked = [timer(), timer(delay="PT0S")]
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as first, HolderClient(dsn) as second:
        drawn = await draw_keys(first.session, 2)
        await first.begin()
        await schedule_timers(first.session, drawn, asked)
        assert (await first.take(horizon_s=0, fire_overdue=True)).fired == 1

        # When the same batch is sent again, and then the first attempt commits
        again = await waits(second, schedule_timers(second.session, drawn, asked))
        await first.commit()
        outcomes = await ends(again)

    # Then the second attempt has seen both timers.
    assert keys_of(outcomes) == drawn.keys
    assert [row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.timers")] == drawn.keys[:1]


async def test_a_second_attempt_also_waits_for_a_part_of_the_first_attempt(dsn: str) -> None:
    # Given an attempt in two transactions. The second has not committed yet, and its timer will fire when it commits.
    asked = [timer(), timer(delay="PT0S")]
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as first, HolderClient(dsn) as second:
        drawn = await draw_keys(first.session, 2)
        part = [planned.plan_timer(key, it, drawn.at, None) for key, it in zip(drawn.keys, asked, strict=True)][1:]
        await first.begin()
        await writing.write_whole(first.session, part, drawn, None)
        assert (await first.take(horizon_s=0, fire_overdue=True)).fired == 1

        # When the full batch is sent again, and then the second part commits
        again = await waits(second, schedule_timers(second.session, drawn, asked))
        await first.commit()
        outcomes = await ends(again)

    # Then the timer of the second part exists only once.
    assert keys_of(outcomes) == drawn.keys
    assert [row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.timers")] == drawn.keys[:1]


@pytest.mark.parametrize("answer_lost", [False, True], ids=["before_the_commit", "after_the_commit"])
async def test_after_a_connection_loss_during_a_commit_a_repeated_request_gives_the_outcome(
    dsn: str, answer_lost: bool
) -> None:
    asked = [timer(name=f"n{i}") for i in range(50)]
    async with CuttingProxy(dsn) as wire, session(dsn) as direct, session(wire.dsn) as client:
        drawn = await draw_keys(client, 50)
        wire.cut_at(b"COMMIT;", after_the_server_read_it=answer_lost)

        with pytest.raises(StoreUnavailable):
            await schedule_timers(client, drawn, asked)
        assert wire.was_cut
        outcomes = await schedule_timers(client, drawn, asked)

        assert keys_of(outcomes) == drawn.keys
        again = await schedule_timers(direct, drawn, asked)
        assert again == outcomes
    rows = await query(dsn, "select timer_key, count(*) from shardclock.timers group by 1 order by 1")
    assert [tuple(row) for row in rows] == [(key, 1) for key in drawn.keys]


async def test_only_the_faulty_timer_that_the_model_accepted_is_refused(dsn: str) -> None:
    due = datetime.now(UTC) + HOUR
    bad = timer(due_date="2030-01-01T00:00:00Z").model_copy(
        update={"due_date": None, "delay": parse_duration("P9000Y")}
    )
    asked = [timer(due_date=due.isoformat()) for _ in range(7)]
    asked.insert(3, bad)

    async with session(dsn) as client:
        outcomes = await schedule_timers(client, await draw_keys(client, 8), asked)

    assert [type(it) for it in outcomes] == [Scheduled] * 3 + [Refused] + [Scheduled] * 4
    refused = outcomes[3]
    assert isinstance(refused, Refused)
    assert "a timer is due in the years 1 to 9999" in refused.why
    assert "\n" not in refused.why
    assert len(refused.why) < 400
    assert await value(dsn, "select count(*) from shardclock.timers") == 7


class CuttingProxy:
    """Forward bytes between a client and Postgres's socket, and cut the connection at a message."""

    def __init__(self, dsn: str) -> None:
        url = urlsplit(dsn)
        where = parse_qs(url.query)
        self._socket = f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}"
        self._database = url.path.lstrip("/")
        self._cut_at = b""
        self._after = False
        self.was_cut = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.dsn = f"postgresql://postgres@127.0.0.1:{port}/{self._database}?sslmode=disable"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def cut_at(self, message: bytes, *, after_the_server_read_it: bool) -> None:
        """Cut the next connection that sends this message, before or after the server has handled the message."""
        self._cut_at, self._after = message, after_the_server_read_it

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
        answers = asyncio.create_task(self._forward(up_reader, writer))
        while data := await reader.read(65_536):
            if self._cut_at and self._cut_at in data:
                self._cut_at = b""
                self.was_cut = True
                answers.cancel()
                if self._after:
                    up_writer.write(data)
                    await up_reader.read(1)  # Postgres has answered, so the transaction is committed
                break
            up_writer.write(data)
        for end in (up_writer, writer):
            end.close()
        answers.cancel()

    @staticmethod
    async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()
