"""A cluster for one test, which executes all due work when the test moves the clock."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shardclock.log import LogRecord
from shardclock.log.async_reading import read_log
from shardclock_server.cluster.testing.api import serving
from shardclock_server.cluster.testing.app import AppHere
from shardclock_server.cluster.testing.databases import databases
from shardclock_server.cluster.testing.environment import named_in_environment
from shardclock_server.cluster.testing.keepers import Keepers, keeping
from shardclock_server.cluster.testing.moments import Moment, target_of
from shardclock_server.cluster.testing.progress import AdvanceProgress
from shardclock_server.cluster.testing.webhooks import Webhook, WebhookBook
from shardclock_server.sql.clock.moved import NextDue, move, next_due
from shardclock_server.sql.deliveries.find import DeliveryFilter, FoundDelivery, find_deliveries
from shardclock_server.sql.log.partitions import ensure_log_partitions
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused

if TYPE_CHECKING:
    from shardclock import AsyncClient

# `ensure_log_partitions` creates the log's partitions for a week. Each call is slow: Postgres must then plan all
# statements again.
LOG_DAYS_AHEAD = 7
FOUND_MAX = 10_000
PAGE = 500
NO_HTTPX2 = "sc.client needs httpx2, which is not installed; install it: pip install 'shardclock-client[http]'"


class SteppedCluster:
    """One cluster, with a clock that only `advance` moves.

    `dsn` is the cluster's database, `url` its HTTP API; `webhooks` are recorded instead of sent.
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
        """Return a client of the cluster's HTTP API.

        errors:  ImportError  httpx2 is not installed; the message explains how to install it
        """
        __tracebackhide__ = (
            True  # With this variable, Pytest shows the test's line and the message, without this frame.
        )
        if find_spec("httpx2") is None:  # httpx2 is optional, because a test that uses only SQL does not need it.
            raise ImportError(NO_HTTPX2)
        from shardclock import AsyncClient

        return AsyncClient(self.url)

    @property
    def webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks in the order in which a worker would have sent them."""
        return self._keepers.book.webhooks

    def now(self) -> datetime:
        """Return the clock's moment."""
        return self._now

    async def advance(self, by: str | timedelta | None = None, *, to: datetime | None = None) -> datetime:
        """Move the clock by a duration or to a moment, and execute all work that becomes due on the way.

        The result is the new moment. At each moment with due work, timers fire, handlers are called and jobs are run,
        until no work is due at this moment.

        errors:  ValueError     not exactly one of `by` and `to` is given, or the moment lies in the past.
                 InvalidTimer   the length can't be read.
                 RuntimeError   the clock is being moved already.
                 EndlessMoment  a moment doesn't end, because each firing schedules the next timer without a delay.
                 StuckTimer     a timer is due that can't fire, because a transaction of the test has locked it.
        """
        target = target_of(self._now, by, to)
        with self._alone():
            await self._keepers.finish()
            progress = AdvanceProgress(self._now, target)
            due = await self._next_due(target)
            while due is not None and due.due_at <= target:
                await self._arrive(max(due.due_at, self._now))
                progress.tell(self._now)
                due = await self._let_happen(due, until=target)
            await move(self._session, target)
            await self._arrive(target)
        return target

    async def log(self) -> list[LogRecord]:
        """Read all records of the log in order."""
        records: list[LogRecord] = []
        while page := await read_log(self._session, records[-1].position if records else 0, limit=PAGE):
            records += page
        return records

    async def deliveries(self) -> list[FoundDelivery]:
        """Find the unfinished deliveries, which will be attempted again."""
        return await find_deliveries(self._session, DeliveryFilter(), limit=FOUND_MAX)

    async def close(self) -> None:
        """Close the client, if a client was used."""
        if "client" in self.__dict__:
            await self.client.aclose()

    async def _next_due(self, until: datetime) -> NextDue | None:
        """Return the next due work before a moment.

        This call also fires the timers that are due at this moment. The call does not fire the timers if one of them
        has a schedule, or if the log has no partition for the moment.
        """
        last_day = self._log_made_on + timedelta(days=LOG_DAYS_AHEAD)
        fire_until = until if until.date() <= last_day else datetime.combine(last_day, time.max, UTC)
        try:
            return await next_due(self._session, until=until, fire_until=fire_until, holder=self._keepers.shard.holder)
        # The statement above fires all due timers in one batch, so one invalid timer makes Postgres refuse the batch. A
        # step of the shard then fires these timers, because it splits a refused batch.
        except StatementRefused:
            return await next_due(self._session, until=until)

    async def _let_happen(self, due: NextDue | None, *, until: datetime) -> NextDue | None:
        """Do all work that is due now, round after round; return the next work that is due later, up to `until`."""
        moment = Moment(self._now)
        while due is not None and due.due_at <= self._now:
            if pause_s := moment.begin_round(due):
                await asyncio.sleep(pause_s)
            await self._keepers.step(due)
            due = await self._next_due(until)
        return due

    async def _arrive(self, moment: datetime) -> None:
        """Record that the clock has reached a moment."""
        self._now = moment
        if (moment.date() - self._log_made_on).days > LOG_DAYS_AHEAD:
            await ensure_log_partitions(self._session)
            self._log_made_on = moment.date()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._is_moving:
            raise RuntimeError(
                "the clock is already being moved: a handler can't move the clock, and two tasks can't move it at the"
                " same time; await one advance before the next"
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
    """Run a cluster during a block, with the handlers and jobs of an app; the clock starts at `now`.

    `app` has the form of `shardclock up --app`: one or more of package.module or package.module:function. `jobs`
    chooses jobs of the app by names or patterns, for example "report.*"; None chooses all jobs, () no job. While only
    this cluster is open in the process, SHARDCLOCK_DSN and SHARDCLOCK_API_URL name its database and API. Without `now`,
    the clock starts at the present moment. Random pauses before retries depend on `seed`.

    errors:  InvalidHandler, InvalidJob  the app can't be used.
             TypeError                   `app` is not a text, or `now` is not a datetime.
             ValueError                  `now` has no time zone, or a name in `jobs` matches no job of the app.
             EmbeddedPostgresError       Postgres can't be started here.
    """
    code = AppHere.found(app).with_jobs(jobs)
    begins_at = target_of(datetime.min.replace(tzinfo=UTC), None, now or datetime.now(UTC))
    async with AsyncExitStack() as stack:
        dsn = await stack.enter_async_context((await databases()).lend(begins_at))
        # During a long advance, an autovacuum analyzes the tables. After that, without these settings, Postgres may
        # plan the search for the next due row at each step, and the planning takes longer than the execution.
        session = Session(dsn, application="shardclock testing", plans=QUEUE_PLANS)
        await stack.enter_async_context(session)
        await code.declare(session)
        book = WebhookBook()
        keepers = await stack.enter_async_context(keeping(dsn, session, code, book, random.Random(seed)))  # noqa: S311
        url = await stack.enter_async_context(serving(dsn))
        stack.enter_context(named_in_environment(dsn, url))
        made = SteppedCluster(session, keepers, dsn=dsn, url=url, now=begins_at)
        stack.push_async_callback(made.close)
        yield made
