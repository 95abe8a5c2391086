"""What `up` writes before its cluster fires: how many shards are wanted, and the handlers and jobs of its app."""

import asyncio
import time
from enum import Enum

from shardclock_server.cli.output import tell
from shardclock_server.cluster.settings import Settings
from shardclock_server.service.words import counted
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.identity import read_identity
from shardclock_server.sql.cluster.leadership import read_leading
from shardclock_server.sql.cluster.leadership import scale as set_scale
from shardclock_server.sql.deliveries.handlers import count_handlers, declare_handlers
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.sql.session import Session, StatementRefused, StoreLocked, StoreUnavailable
from shardclock_server.workers.app import App

# Between two checks; each opens a connection.
HOLD_LOOK_S = 1.0  # whether a hold has ended
LEAD_LOOK_S = 5.0  # which cluster leads


class Leads(Enum):
    """Which cluster leads on the database."""

    NONE = "none"
    THIS = "this"
    ANOTHER = "another"


class Preparation:
    """Write how many shards are wanted, once, and what the app declares, each time that the lead has moved.

    A database that is on hold may be another installation's, which has shards and handlers of its own. There nothing is
    written until the hold has ended. While another cluster leads, its app is the one that is called: we add our
    handlers, and withdraw others only when we lead. Of jobs there is one set, which is the leader's.
    """

    def __init__(self, settings: Settings, app: App | None) -> None:
        self._settings = settings
        self._app = app
        self._leads: Leads | None = None  # at the last declaration, in this term
        self._term = 0
        self._is_written = False
        self._is_scaled = False
        self._is_told = False  # what the app declares
        self._look_at_s = 0.0
        self._said = ""

    def begin(self, dsn: Dsn) -> None:
        """Write it for the first time; where a client's open transaction is in the way, `tend` does it a little later.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        try:
            asyncio.run(self.turn(dsn))
        except StoreLocked as error:
            self._say(f"{self._not_written()}: {error}; trying again")

    def tend(self, dsn: Dsn) -> None:
        """Write what has become due, after a hold or when the lead has moved; call this every `TEND_S`."""
        if (self._is_written and self._app is None) or time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + (LEAD_LOOK_S if self._is_written else HOLD_LOOK_S)
        try:
            asyncio.run(self.turn(dsn))
        except (StoreUnavailable, StatementRefused) as error:  # a running cluster outlives both
            if not self._is_written:
                self._say(f"{self._not_written()}: {error}; trying again")

    async def turn(self, dsn: Dsn) -> None:
        """Write it, and say if the database is on hold; on one that is not this installation's, only say so.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        async with Session(dsn, application="shardclock up") as session:
            identity = await read_identity(session, self._settings.identity or "")
            if identity.hold_reason is not None:
                self._say(f"ON HOLD: {identity.hold_reason}; nothing fires until `shardclock release`")
            if identity.foreign_reason is not None:
                return
            if not self._is_scaled and self._settings.shards is not None:
                await set_scale(session, SHARD, self._settings.shards)
            self._is_scaled = True
            leading, term = await read_leading(session) or (None, 0)
            leads = Leads.NONE if leading is None else Leads(("another", "this")[leading == self._settings.cluster_id])
            # While none leads for a moment, nobody's app is withdrawn: whoever leads next declares its own.
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
        if changes or not self._is_told:
            told = ", ".join(f"{target} ({change})" for target, change in sorted(changes.items()))
            tell(f"app {app.modules}: {counted(len(app.handlers), 'handler')}{'; ' + told if told else ''}")
        self._is_told = True
        if stands_by:
            if leads is not self._leads:
                tell("another cluster leads: this one stands by, and its handlers are called once it leads")
        else:
            jobs = await declare_jobs(session, app.jobs)
            if jobs or (app.jobs and self._leads is None):
                told = ", ".join(f"{name} ({', '.join(what)})" for name, what in sorted(jobs.items()))
                tell(f"app {app.modules}: {counted(len(app.jobs), 'job')}{'; ' + told if told else ''}")

    async def _warn(self, session: Session, leads: Leads) -> None:
        if leads is Leads.ANOTHER:
            tell("another cluster leads: this one stands by")
        if declared := await count_handlers(session):
            are = "is" if declared == 1 else "are"
            tell(
                f"{counted(declared, 'handler')} {are} declared, and this cluster has no app: deliveries to them wait"
                " until a cluster leads that has one (`shardclock up --app`)"
            )

    def _not_written(self) -> str:
        if not self._is_scaled:
            return "shards wanted and handlers are not written yet"
        return "the app's jobs are not declared yet" if self._is_told else "the app's handlers are not declared yet"

    def _say(self, sentence: str) -> None:
        """Say what has not been said already."""
        if sentence != self._said:
            self._said = sentence
            tell(sentence)
