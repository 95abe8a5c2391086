"""Schedules of every kind fire on the right dates across both daylight-saving changes and an outage of a day.

The test moves the clock, and compares the log with dates that the test finds in the simplest way: minute by minute for
cron, and by another library's calendar for repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, takewhile
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pytest
from whenever import PlainDateTime

from shardclock_server.shards.firing import is_unplanned, planning_of
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.firing.fire import plan_schedules
from shardclock_server.timers.model import NewTimer
from tests.support.factories import HolderClient, add_holder, query
from tests.support.roles import OPERATOR

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATE = timedelta(milliseconds=3)
NOT_MISSED = timedelta(seconds=60)

Dates: TypeAlias = Callable[[ZoneInfo, datetime], Iterator[datetime]]


def on_the_clock(minutes: set[int], hours: set[int], *, weekdays: int = 7, twice: bool = False) -> Dates:
    """Check every minute of a local clock; a local time that occurs twice counts twice only with `twice`."""

    def dates(zone: ZoneInfo, begin: datetime) -> Iterator[datetime]:
        for number in count(1):
            local = (begin + number * MINUTE).astimezone(zone)
            on_time = local.minute in minutes and local.hour in hours and local.weekday() < weekdays
            if on_time and (twice or not local.fold):
                yield begin + number * MINUTE

    return dates


def on_the_calendar(*, months: int = 0, days: int = 0) -> Dates:

    def dates(zone: ZoneInfo, begin: datetime) -> Iterator[datetime]:
        anchor = PlainDateTime(begin.astimezone(zone).replace(tzinfo=None))
        for number in count(1):
            local = anchor.add(months=months * number, days=days * number)
            yield local.assume_tz(zone.key, disambiguation="compatible").to_instant().to_stdlib()

    return dates


def elapsed(period: timedelta) -> Dates:
    return lambda _, begin: (begin + number * period for number in count(1))


ALL_DAY = set(range(24))
RULES: dict[str, Dates] = {
    "0 8 * * MON-FRI": on_the_clock({0}, {8}, weekdays=5),
    "30 2 * * *": on_the_clock({30}, {2}),
    "0 30 1,2 * * *": on_the_clock({30}, {1, 2}),
    "0 0 * * * *": on_the_clock({0}, ALL_DAY, twice=True),
    "*/15 * * * *": on_the_clock({0, 15, 30, 45}, ALL_DAY, twice=True),
    "R/P1D": on_the_calendar(days=1),
    "R/P1M": on_the_calendar(months=1),
    "R/PT36H": elapsed(36 * HOUR),
    "R200/PT6H": elapsed(6 * HOUR),
}
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]
POLICIES = ["fire_once", "fire_all", "skip"]


@dataclass
class ShardOnTestClock:
    """One shard, with a clock that the test moves by weeks."""

    shard: HolderClient
    now: datetime

    async def pass_until(self, end: datetime) -> None:
        """Move the clock: at each due date, claim and fire the due timers, a few milliseconds late."""
        while (due := await self.shard.value("select min(due_date) from shardclock.timers")) and due <= end:
            self.now = max(self.now, due + LATE)
            await self.turn()
        self.now = end

    async def turn(self) -> None:
        """Claim the timers that are due now; plan or fire them, as a shard does."""
        self.shard.now = self.now
        claimed = (await self.shard.take(horizon_s=0)).claimed
        if unplanned := [planning_of(timer) for timer in claimed if is_unplanned(timer)]:
            await plan_schedules(self.shard.session, self.shard.holder, unplanned)
        await self.shard.fire([timer for timer in claimed if not is_unplanned(timer)])


@dataclass
class ScheduleStory:
    """One schedule, as the log shows it: the occurrences that have a record, and the occurrences that fired."""

    numbers: list[int] = field(default_factory=list)
    fired: dict[int, datetime] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("begin", "outage"),
    [
        # New York's clock changes in spring, then Berlin's clock
        (datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 3, 28, 12, tzinfo=UTC)),
        # Lord Howe's clock changes, then Berlin's clock in autumn
        (datetime(2026, 10, 2, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)),
    ],
    ids=["spring", "autumn"],
)
@pytest.mark.exhaustive
async def test_no_schedule_leaves_its_grid_when_the_clocks_change_and_the_cluster_is_away_for_a_day(
    dsn: str, begin: datetime, outage: datetime
) -> None:
    # Given schedules of every kind, in every zone, under every policy
    asked = [(text, zone, missed) for text in RULES for zone in ZONES for missed in POLICIES]
    timers = [
        NewTimer.from_fields({"schedule": text, "zone": zone, "missed": missed, "name": f"{text} {zone} {missed}"})
        for text, zone, missed in asked
    ]
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as shard:
        drawn = await draw_keys(shard.session, len(timers))
        outcomes = await schedule_timers(shard.session, Drawn(drawn.keys, at=begin), timers)
        assert all(isinstance(outcome, Scheduled) for outcome in outcomes)

        # When five weeks pass, and the clocks change during an outage of a day
        cluster, end = ShardOnTestClock(shard, begin), begin + 35 * DAY
        await cluster.pass_until(outage)
        cluster.now = outage + DAY
        await cluster.pass_until(end)

    # Then the log has all occurrences of each schedule, in order, each on the date that `whenever` computes.
    stories = await stories_of(dsn)
    dates = {
        (text, zone): list(takewhile(lambda at: at <= end, RULES[text](ZoneInfo(zone), begin)))
        for text in RULES
        for zone in ZONES
    }
    for (text, zone, missed), timer in zip(asked, timers, strict=True):
        check(stories[timer.name or ""], dates[text, zone], missed, outage)


def check(story: ScheduleStory, dates: list[datetime], missed: str, outage: datetime) -> None:
    """Compare a schedule's records with its dates and its policy."""
    assert story.numbers == list(range(1, len(dates) + 1)), "S5: in order, no gap, each once"
    assert story.fired == {number: dates[number - 1] for number in story.fired}, "S6: as the oracle says"
    during = {number for number, at in enumerate(dates, 1) if outage < at <= outage + DAY}
    silent = set(story.numbers) - story.fired.keys()
    match missed:
        case "fire_all":
            assert silent == set()
        case "fire_once":
            assert silent == during - {min(during, default=0)}
        case "skip":
            assert silent == {number for number in during if dates[number - 1] < outage + DAY - NOT_MISSED}


async def stories_of(dsn: str) -> dict[str, ScheduleStory]:
    """Read each schedule's records from the log; the keys are names."""
    rows = await query(
        dsn,
        "select name, intent, occurrence, due_date, coalesce((detail ->> 'count')::integer, 1) as count"
        " from shardclock.command_log order by position",
    )
    stories: dict[str, ScheduleStory] = {}
    for row in rows:
        story = stories.setdefault(row["name"], ScheduleStory())
        story.numbers += range(row["occurrence"], row["occurrence"] + row["count"])
        if row["intent"] == "TRIGGERED":
            assert row["occurrence"] not in story.fired, "S3: at most once"
            story.fired[row["occurrence"]] = row["due_date"]
    return stories
