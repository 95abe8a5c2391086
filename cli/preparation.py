"""Write the wanted shards, the handlers and the jobs into the database before a cluster fires timers."""

import asyncio
import time
from enum import Enum

from shardclock_server.cli.output import print_note
from shardclock_server.cluster.hosts import stand_by_of
from shardclock_server.cluster.settings import Settings
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.identity import read_identity
from shardclock_server.sql.cluster.leadership import read_leading
from shardclock_server.sql.cluster.leadership import scale as set_scale
from shardclock_server.sql.deliveries.handlers import count_handlers, declare_handlers
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.workers.app import App

# Intervals between polls; each poll opens a connection.
HOLD_POLL_S = 1.0  # The interval during a hold, and until the declarations are written.
LEAD_POLL_S = 5.0  # The interval after the first write; each poll checks whether another cluster leads.


class Leads(Enum):
    """The relation of this cluster to the leading cluster."""

    NONE = "none"
    THIS = "this"
    ANOTHER = "another"


class Preparation:
    """Write the wanted number of shards once, and the app's declarations at the start and when the lead changes.

    A database on hold may belong to another installation, so this class writes nothing until the hold ends. While
    another cluster leads, workers call that cluster's app. Each cluster adds the handlers of its app. Only the leading
    cluster withdraws the handlers that its app does not have. Only the leading cluster declares jobs.
    """

    def __init__(self, settings: Settings, app: App | None) -> None:
        self._settings = settings
        named = settings.cluster_id or ""
        self._cluster_ids = {named, stand_by_of(named)} if settings.has_stand_by else {named}
        self._app = app
        # The leading cluster at the last declaration; `_term` is the term of that leader.
        self._leads: Leads | None = None
        self._term = 0
        self._is_written = False
        self._is_scaled = False
        self._is_printed = False  # True if the app's handlers were printed.
        self._poll_at_s = 0.0
        self._last_printed = ""

    def begin(self, dsn: Dsn) -> None:
        """Write the wanted number of shards and the app's declarations when `shardclock up` starts.

        If Postgres is restarting, or the transaction of a client blocks a write, `maintain` repeats the write later.
        """
        try:
            asyncio.run(self.turn(dsn))
        except StoreUnavailable as error:
            self._print_once(f"{self._not_written()}: {error}; trying again")

    def maintain(self, dsn: Dsn) -> None:
        """Write pending declarations after a hold or a change of the leading cluster.

        The caller repeats the call every `TEND_S`.
        """
        if (self._is_written and self._app is None) or time.monotonic() < self._poll_at_s:
            return
        self._poll_at_s = time.monotonic() + (LEAD_POLL_S if self._is_written else HOLD_POLL_S)
        try:
            asyncio.run(self.turn(dsn))
        except (StoreUnavailable, StatementRefused) as error:  # These errors must not stop the running cluster.
            if not self._is_written:
                self._print_once(f"{self._not_written()}: {error}; trying again")

    async def turn(self, dsn: Dsn) -> None:
        """Write the pending declarations, and print a hold; don't change the database of another installation.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        async with Session(dsn, application="shardclock up") as session:
            identity = await read_identity(session, self._settings.identity or "")
            if identity.hold_reason is not None:
                self._print_once(f"ON HOLD: {identity.hold_reason}; no timer fires until `shardclock release`")
            if identity.foreign_reason is not None:
                return
            if not self._is_scaled and self._settings.shards is not None:
                await set_scale(session, SHARD, self._settings.shards)
            self._is_scaled = True
            leading, term = await read_leading(session) or (None, 0)
            is_ours = leading is not None and leading in self._cluster_ids
            leads = Leads.NONE if leading is None else Leads.THIS if is_ours else Leads.ANOTHER
            # Without a leading cluster, declare and withdraw nothing, because the next leading cluster declares its own
            # app.
            if leads is Leads.NONE and self._leads is not None:
                return
            if self._app is None:
                await self._warn(session, leads)
            elif (leads, term) != (self._leads, self._term):
                await self._declare(session, self._app, leads)
            self._leads, self._term = leads, term
        self._is_written = True

    async def _declare(self, session: Session, app: App, leads: Leads) -> None:
        stands_by = leads is Leads.ANOTHER
        changes = await declare_handlers(
            session, [handler.declared() for handler in app.handlers], withdraw=not stands_by
        )
        if changes or not self._is_printed:
            changed = ", ".join(f"{target} ({change})" for target, change in sorted(changes.items()))
            print_note(f"app {app.modules}: {counted(len(app.handlers), 'handler')}{'; ' + changed if changed else ''}")
        if app.left_out and not self._is_printed:
            print_note(
                f"app {app.modules} imports {', '.join(app.left_out)}, and does not contain their handlers and jobs;"
                f" `--app {','.join((app.modules, *app.left_out))}` adds them"
            )
        self._is_printed = True
        if stands_by:
            if leads is not self._leads:
                print_note("another cluster leads; this cluster stands by, and its handlers are called when it leads")
        else:
            jobs = await declare_jobs(session, app.jobs)
            if jobs or (app.jobs and self._leads is None):
                changed = ", ".join(f"{name} ({', '.join(what)})" for name, what in sorted(jobs.items()))
                print_note(f"app {app.modules}: {counted(len(app.jobs), 'job')}{'; ' + changed if changed else ''}")

    async def _warn(self, session: Session, leads: Leads) -> None:
        if leads is Leads.ANOTHER:
            print_note("another cluster leads; this cluster stands by")
        if declared := await count_handlers(session):
            are = "is" if declared == 1 else "are"
            print_note(
                f"{counted(declared, 'handler')} {are} declared, and this cluster has no app: deliveries to"
                " handlers wait until a cluster with an app leads (`shardclock up --app`)"
            )

    def _not_written(self) -> str:
        if not self._is_scaled:
            return "the wanted shards and the handlers are not written yet"
        return "the app's jobs are not declared yet" if self._is_printed else "the app's handlers are not declared yet"

    def _print_once(self, sentence: str) -> None:
        """Print a sentence, unless it equals the last printed sentence."""
        if sentence != self._last_printed:
            self._last_printed = sentence
            print_note(sentence)
