"""Prove that what was asked for once is scheduled once, whatever happens to the connection in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest

from sql.pending import Refused, Scheduled, cancel_timer, draw_keys, reschedule_timer, schedule_timers
from sql.session import Session, StoreUnavailable
from tests.store import BOUND_S, Hand, add_holder, ends, intents, query, value, waits
from timers.duration import Duration, parse_duration
from timers.model import NewTimer
from timers.refusal import InvalidTimer

HOUR = timedelta(hours=1)


def timer(**fields: object) -> NewTimer:
    """Ask for a timer; in an hour, unless told otherwise."""
    when = {"delay": "PT1H"} if fields.keys().isdisjoint({"due_date", "delay", "schedule"}) else {}
    return NewTimer.from_fields({**when, **fields})


def session(dsn: str) -> Session:
    """Open a client's session."""
    return Session(dsn, application="test", timeout_s=BOUND_S)


async def test_outcomes_come_in_the_order_of_the_timers_and_every_column_is_kept(each_dsn: str) -> None:
    asked = [
        timer(due_date="2030-01-31T08:00:00Z", name="a", tenant_id="acme", payload={"order": [1, "ü"]}),
        timer(due_date="2020-01-01T00:00:00Z", timer_type="BOUNDARY", target_element_id="b1", process_instance_key=7),
        timer(schedule="R3/PT1M", element_instance_key=8),
    ]

    async with session(each_dsn) as client:
        keys = await draw_keys(client, 3)
        outcomes = await schedule_timers(client, keys, asked)

    assert [it.timer_key for it in outcomes if isinstance(it, Scheduled)] == keys
    rows = await query(each_dsn, "select * from shardclock.timers order by timer_key")
    assert [row["due_date"] for row in rows] == [it.due_date for it in outcomes if isinstance(it, Scheduled)]
    first, second, third = (dict(row) for row in rows)
    assert first["due_date"] == datetime(2030, 1, 31, 8, tzinfo=UTC)
    assert (first["name"], first["tenant_id"], first["payload"]) == ("a", "acme", '{"order": [1, "ü"]}')
    assert (second["timer_type"], second["target_element_id"], second["process_instance_key"]) == ("BOUNDARY", "b1", 7)
    assert (third["name"], third["schedule"], third["repetitions"]) == (f"schedule-{keys[2]}", "R3/PT1M", 3)
    assert third["due_date"] - third["anchor"] == timedelta(minutes=1)
    assert third["element_instance_key"] == 8
    assert {(row["target"], row["zone"], row["occurrence"], row["claimed_by"]) for row in rows} == {
        ("log", "UTC", 1, None)
    }


async def test_delays_and_periods_are_counted_by_the_clock_of_postgres(dsn: str) -> None:
    async with Hand(dsn) as client:
        keys = await draw_keys(client.session, 4)
        await client.begin()
        now = await client.value("select now()")
        delays = [timer(delay="PT0S"), timer(delay="P1DT0.000001S"), timer(delay="P1M"), timer(schedule="R/P1D")]
        await schedule_timers(client.session, keys, delays)
        in_a_month = await client.value("select (now() at time zone 'UTC' + interval '1 month') at time zone 'UTC'")
        await client.commit()

    dues = [row["due_date"] for row in await query(dsn, "select due_date from shardclock.timers order by timer_key")]
    day = timedelta(days=1)
    assert dues == [now, now + day + timedelta(microseconds=1), in_a_month, now + day]


async def test_a_taken_name_is_refused_alone(dsn: str) -> None:
    async with session(dsn) as client:
        await schedule_timers(client, await draw_keys(client, 1), [timer(name="taken")])
        keys = await draw_keys(client, 4)
        asked = [timer(), timer(name="taken"), timer(name="taken", tenant_id="other"), timer(name="twice")]

        outcomes = await schedule_timers(client, [*keys, keys[-1] + 1000], [*asked, timer(name="twice")])

    assert [type(it) for it in outcomes] == [Scheduled, Refused, Scheduled, Scheduled, Refused]
    assert isinstance(outcomes[1], Refused)
    assert outcomes[1].why == (
        "name 'taken' is taken by a pending timer of tenant 'default'; "
        "cancel or reschedule that one, or choose another name"
    )
    assert await value(dsn, "select count(*) from shardclock.timers") == 4


async def test_no_timers_are_no_work(dsn: str) -> None:
    async with session(dsn) as client:
        assert await schedule_timers(client, [], []) == []


async def test_sending_the_same_keys_again_adds_nothing_and_gives_the_same_answer(dsn: str) -> None:
    asked = [timer(name="n"), timer(due_date="2020-01-01T00:00:00Z"), timer(schedule="R/PT1H")]
    async with session(dsn) as client:
        keys = await draw_keys(client, 3)
        first = await schedule_timers(client, keys, asked)

        assert await schedule_timers(client, keys, asked) == first

    assert await value(dsn, "select count(*) from shardclock.timers") == 3


async def test_sending_the_same_keys_again_adds_nothing_after_the_timers_have_ended(dsn: str) -> None:
    asked = [timer(delay="PT0S", name="n"), timer(schedule="R/PT1H"), timer(delay="PT0S"), timer(name="canceled")]
    await add_holder(dsn, 1)
    async with Hand(dsn, holder=1) as shard:
        keys = await draw_keys(shard.session, 4)
        first = await schedule_timers(shard.session, keys, asked)
        shard.now = await shard.value("select now() + interval '1 hour'")
        await shard.cancel(timer_key=keys[3])
        await shard.fire((await shard.take()).claimed)

        again = await schedule_timers(shard.session, keys, asked)

    assert again == first
    ended = [(keys[0], "TRIGGERED"), (keys[1], "TRIGGERED"), (keys[2], "TRIGGERED"), (keys[3], "CANCELED")]
    assert await intents(dsn) == dict.fromkeys(ended, 1)
    left = await query(dsn, "select occurrence, name from shardclock.timers")
    assert [tuple(row) for row in left] == [(2, f"schedule-{keys[1]}")], "the schedule's next one, no more"


async def test_timers_that_fire_while_they_are_sent_again_are_not_made_a_second_time(dsn: str) -> None:
    # Given a batch that came through, though its sender does not know it
    asked = [timer(name="first"), timer(delay="PT0S")]
    await add_holder(dsn, 1)
    async with Hand(dsn, holder=1) as shard, Hand(dsn) as stranger, Hand(dsn) as client:
        keys = await draw_keys(client.session, 2)
        await schedule_timers(client.session, keys, asked)
        # and of which the first one has since been cancelled by a transaction that is still open.
        await stranger.begin()
        await stranger.cancel(timer_key=keys[0])

        # When it is sent again, and while it waits there, a shard comes for the second one,
        sending = await waits(client, schedule_timers(client.session, keys, asked))
        await shard.take(horizon_s=0, fuse=True)
        await stranger.commit()
        outcomes = await ends(sending)
        await shard.take(horizon_s=0, fuse=True)

    # Then neither exists a second time.
    assert all(isinstance(it, Scheduled) for it in outcomes)
    assert await value(dsn, "select array_agg(timer_key) from shardclock.timers") is None
    assert await intents(dsn) == {(keys[0], "CANCELED"): 1, (keys[1], "TRIGGERED"): 1}


async def test_a_second_attempt_waits_for_one_that_is_still_under_way(dsn: str) -> None:
    # Given an attempt that has not committed yet, though it is so slow that one of its timers fires with it
    asked = [timer(), timer(delay="PT0S")]
    await add_holder(dsn, 1)
    async with Hand(dsn, holder=1) as first, Hand(dsn) as second:
        keys = await draw_keys(first.session, 2)
        await first.begin()
        await schedule_timers(first.session, keys, asked)
        assert (await first.take(horizon_s=0, fuse=True)).fired == 1

        # When the same is sent again, and then the first one commits
        again = await waits(second, schedule_timers(second.session, keys, asked))
        await first.commit()
        outcomes = await ends(again)

    # Then the second one has seen both.
    assert [it.timer_key for it in outcomes if isinstance(it, Scheduled)] == keys
    assert [row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.timers")] == keys[:1]


@pytest.mark.parametrize("answer_lost", [False, True], ids=["before_the_commit", "after_the_commit"])
async def test_a_connection_lost_in_mid_commit_is_settled_by_sending_again(dsn: str, answer_lost: bool) -> None:
    asked = [timer(name=f"n{i}") for i in range(50)]
    async with Wire(dsn) as wire, session(dsn) as direct, session(wire.dsn) as client:
        keys = await draw_keys(client, 50)
        wire.cut_at(b"COMMIT;", after_the_server_read_it=answer_lost)

        with pytest.raises(StoreUnavailable):
            await schedule_timers(client, keys, asked)
        assert wire.was_cut
        outcomes = await schedule_timers(client, keys, asked)

        assert [it.timer_key for it in outcomes if isinstance(it, Scheduled)] == keys
        again = await schedule_timers(direct, keys, asked)
        assert again == outcomes
    rows = await query(dsn, "select timer_key, count(*) from shardclock.timers group by 1 order by 1")
    assert [tuple(row) for row in rows] == [(key, 1) for key in keys]


async def test_a_backend_terminated_in_mid_batch_leaves_each_timer_once_when_sent_again(dsn: str) -> None:
    async with Hand(dsn) as client, Hand(dsn) as stranger, session(dsn) as operator:
        keys = await draw_keys(client.session, 2)
        asked = [timer(), timer(name="held")]
        await stranger.begin()
        await stranger.value("select shardclock.schedule_timer(delay => 'PT1H', name => 'held')")
        sending = await waits(client, schedule_timers(client.session, keys, asked))
        async with operator.connection() as connection:
            await connection.execute("select pg_terminate_backend($1)", client.pid)
        with pytest.raises(StoreUnavailable):
            await ends(sending)
        await stranger.rollback()

        outcomes = await schedule_timers(client.session, keys, asked)

    assert [it.timer_key for it in outcomes if isinstance(it, Scheduled)] == keys
    assert await value(dsn, "select count(*) from shardclock.timers") == 2


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"due_date": datetime.max.replace(tzinfo=UTC)}, "its due date is out of range"),
        ({"due_date": None, "delay": parse_duration("P9000Y")}, "its due date is out of range"),
        ({"due_date": None, "delay": Duration(12 * 300_000, 0, timedelta(0))}, "its due date is out of range"),
        ({"process_instance_key": 2**63}, "value out of int64 range"),
        ({"payload": '"' + "x" * 65_535 + '"'}, "its payload is too large; the limit is 65,536 bytes (64 KiB)"),
        ({"payload": '"\\u0000"'}, "unsupported Unicode escape sequence"),
        ({"payload": "no json"}, "invalid input syntax for type json"),
        ({"name": "nul\0"}, "invalid byte sequence"),
        ({"target": "nowhere"}, "target_is_known"),
        ({"due_date": None, "schedule": "R/P1000000D"}, "its schedule's period is too long"),
    ],
    ids=lambda it: "_".join(it) if isinstance(it, dict) else "",
)
async def test_a_timer_at_fault_that_came_past_the_model_is_refused_alone(
    dsn: str, fault: dict[str, Any], why: str
) -> None:
    due = datetime.now(UTC) + HOUR
    bad = timer(due_date="2030-01-01T00:00:00Z").model_copy(update=fault)
    asked = [timer(due_date=due.isoformat()) for _ in range(7)]
    asked.insert(3, bad)

    async with session(dsn) as client:
        outcomes = await schedule_timers(client, await draw_keys(client, 8), asked)

    assert [type(it) for it in outcomes] == [Scheduled] * 3 + [Refused] + [Scheduled] * 4
    refused = outcomes[3]
    assert isinstance(refused, Refused)
    assert why in refused.why
    assert "\n" not in refused.why
    assert len(refused.why) < 400
    assert await value(dsn, "select count(*) from shardclock.timers") == 7


async def test_cancelling_twice_is_as_good_as_once(dsn: str) -> None:
    async with session(dsn) as client:
        keys = await draw_keys(client, 1)
        await schedule_timers(client, keys, [timer(name="n")])

        assert await cancel_timer(client, name="n", tenant_id="other") == "UNKNOWN"
        assert await cancel_timer(client, timer_key=keys[0], reason="paid") == "CANCELED"
        assert await cancel_timer(client, timer_key=keys[0]) == "CANCELED"
        assert await cancel_timer(client, name="n") == "CANCELED"
    assert await intents(dsn) == {(keys[0], "CANCELED"): 1}


async def test_a_timer_is_moved_to_a_moment_or_by_a_delay_from_now(dsn: str) -> None:
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    async with Hand(dsn) as client:
        keys = await draw_keys(client.session, 1)
        await schedule_timers(client.session, keys, [timer(name="n")])

        assert await reschedule_timer(client.session, moment, name="n") == "RESCHEDULED"
        assert await client.value("select due_date from shardclock.timers") == moment
        await client.begin()
        assert await reschedule_timer(client.session, parse_duration("PT5M"), timer_key=keys[0]) == "RESCHEDULED"
        assert await client.value("select due_date - now() from shardclock.timers") == timedelta(minutes=5)


async def test_asking_for_no_timer_or_beyond_year_9999_is_refused_in_a_sentence(dsn: str) -> None:
    async with session(dsn) as client:
        with pytest.raises(InvalidTimer, match="say which timer: give either timer_key or name"):
            await cancel_timer(client)
        with pytest.raises(InvalidTimer, match='delay "P9000Y" is'):
            await reschedule_timer(client, parse_duration("P9000Y"), name="n")


class Wire:
    """Carry bytes between a client and Postgres's socket, and cut them off at a message."""

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
        """Cut the next connection that sends this, before or after the server has acted on it."""
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
                    await up_reader.read(1)  # it has answered: the commit is done
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
