"""A cluster that a test has to itself: move its clock, and what is due by then happens."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from shardclock.log import LogRecord
from shardclock.log.async_reading import read_log
from shardclock_server.cluster.testing.api import serving
from shardclock_server.cluster.testing.app import AppHere
from shardclock_server.cluster.testing.databases import databases
from shardclock_server.cluster.testing.keepers import Keepers, keeping
from shardclock_server.cluster.testing.moments import Moment, target_of
from shardclock_server.cluster.testing.progress import Progress
from shardclock_server.cluster.testing.webhooks import Webhook, WebhookBook
from shardclock_server.sql.clock.moved import NextDue, move, next_due
from shardclock_server.sql.deliveries.find import DeliveryFilter, FoundDelivery, find_deliveries
from shardclock_server.sql.log.partitions import ensure_log_partitions
from shardclock_server.sql.session import Session

if TYPE_CHECKING:
    from shardclock import AsyncClient

# `ensure_log_partitions` makes the days of a week ahead. It takes a while, and then all statements are planned again.
LOG_DAYS_AHEAD = 7
FOUND_MAX = 10_000
PAGE = 500


class SteppedCluster:
    """Hold one cluster, whose clock stands still until `advance` moves it.

    `dsn` and `url` are where its database and its HTTP API are; `webhooks` are those that would have been sent.
    """

    def __init__(self, session: Session, keepers: Keepers, *, dsn: str, url: str, now: datetime) -> None:
        self.dsn = dsn
        self.url = url
        self._session = session
        self._keepers = keepers
        self._now = now
        self._log_made_on = now.date()
        self._is_moving = False

    @cached_property
    def client(self) -> "AsyncClient":
        """Return a client of its HTTP API.

        errors:  ImportError  httpx2 is not installed; it says how to install it
        """
        from shardclock import AsyncClient  # needs httpx2, which a test in SQL alone does not

        return AsyncClient(self.url)

    @property
    def webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks that would have been sent, in their order."""
        return self._keepers.book.webhooks

    def now(self) -> datetime:
        """Return what its clock shows."""
        return self._now

    async def advance(self, by: str | timedelta | None = None, *, to: datetime | None = None) -> datetime:
        """Move the clock by a length of time or to a moment, and let happen what is due on the way; return the moment.

        It goes from one moment at which something is due to the next. At each, timers fire, handlers are called and
        runs are made, and then what these have scheduled for the same moment, until nothing is due any more.

        errors:  ValueError     not exactly one of the two is given, or it lies in the past
                 InvalidTimer   the length can't be read
                 RuntimeError   the clock is being moved already
                 EndlessMoment  one moment doesn't come to an end, because what fires schedules the next without a delay
                 StuckTimer     a timer is due that can't fire, because a transaction of the test has locked it
        """
        target = target_of(self._now, by, to)
        with self._alone():
            await self._keepers.finish()
            progress = Progress(self._now, target)
            due = await next_due(self._session, until=target)
            while due is not None and due.due_at <= target:
                await self._arrive(max(due.due_at, self._now))
                progress.tell(self._now)
                due = await self._let_happen(due, until=target)
            await move(self._session, target)
            await self._arrive(target)
        return target

    async def log(self) -> list[LogRecord]:
        """Read all that has happened, in its order."""
        records: list[LogRecord] = []
        while page := await read_log(self._session, records[-1].position if records else 0, limit=PAGE):
            records += page
        return records

    async def deliveries(self) -> list[FoundDelivery]:
        """Find the deliveries that are on their way: an attempt of each is still to come."""
        return await find_deliveries(self._session, DeliveryFilter(), limit=FOUND_MAX)

    async def close(self) -> None:
        """Close the client, if it was used."""
        if "client" in self.__dict__:
            await self.client.aclose()

    async def _let_happen(self, due: NextDue | None, *, until: datetime) -> NextDue | None:
        """Make rounds until nothing is due at this moment; return what is due next, when the clock has gone there."""
        moment = Moment(self._now)
        while due is not None and due.due_at <= self._now:
            if pause_s := moment.begin_round(due):
                await asyncio.sleep(pause_s)
            await self._keepers.step(due)
            due = await next_due(self._session, until=until)
        return due

    async def _arrive(self, moment: datetime) -> None:
        """Learn where the clock stands now."""
        self._now = moment
        if (moment.date() - self._log_made_on).days > LOG_DAYS_AHEAD:
            await ensure_log_partitions(self._session)
            self._log_made_on = moment.date()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._is_moving:
            raise RuntimeError(
                "the clock is being moved already: a handler can't move the clock by which it is called, nor can two"
                " tasks; await one advance before the next"
            )
        self._is_moving = True
        try:
            yield
        finally:
            self._is_moving = False


@asynccontextmanager
async def cluster(
    app: str = "", *, jobs: str | Collection[str] | None = None, now: datetime | None = None, seed: int = 0
) -> AsyncIterator[SteppedCluster]:
    """Run a cluster for the length of a block, with the handlers and jobs of an app, from a moment on.

    The app is what `shardclock up --app` takes: package.module or package.module:function, with commas between them.
    `jobs` chooses which of its jobs there are, by names or patterns such as "report.*"; without it all, with () none.
    Without `now` the clock begins at the present moment. Pauses before further attempts are drawn from `seed`.

    errors:  InvalidHandler, InvalidJob  the app can't be used
             TypeError              `now` is no datetime
             ValueError             `now` has no time zone, or no job of the app has one of the names
             EmbeddedPostgresError  Postgres can't be started here
    """
    code = AppHere.found(app).with_jobs(jobs)
    begins_at = target_of(datetime.min.replace(tzinfo=UTC), None, now or datetime.now(UTC))
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context((await databases()).lend(begins_at))
        session = await stack.enter_async_context(Session(dsn, application="shardclock testing"))
        await code.declare(session)
        book = WebhookBook()
        keepers = await stack.enter_async_context(keeping(dsn, session, code, book, random.Random(seed)))  # noqa: S311
        url = await stack.enter_async_context(serving(dsn))
        made = SteppedCluster(session, keepers, dsn=dsn, url=url, now=begins_at)
        stack.push_async_callback(made.close)
        yield made
