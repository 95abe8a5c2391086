"""A database clock that stands still until a test moves it.

The schema `shardclock_clock` marks a database with a moved clock. All programs that serve a cluster refuse this
database: docs/decisions/0052-a-clock-that-tests-move.md.
"""

from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from shardclock_server.sql.migrate import WrongSchema
from shardclock_server.sql.session import Session

_IS_MOVED = "select to_regnamespace('shardclock_clock') is not null"
_MOVE = "select shardclock_clock.move_to($1)"


class ClockMoved(WrongSchema):
    """A test moves the database's clock, so timers don't become due as real time passes."""


@dataclass(frozen=True, slots=True)
class NextDue:
    """The next due row: a timer (`claims` is 0), or a delivery that had `claims` - 1 claims.

    `slot` is the slot of all timers that are due at this moment, or None if these timers have several slots. `fired` is
    the number of timers that the search has fired.
    """

    due_at: datetime
    timer_key: int
    name: str | None
    target: str
    claims: int
    slot: int | None = None
    fired: int = 0


async def install(session: Session) -> None:
    """Install a clock in an empty database; the clock stops at the current moment. Call this before `migrate`.

    errors:  StatementRefused  the role is not a superuser
             StoreUnavailable  no answer before the timeout
    source:  sql/moved_clock.sql
    """
    text = files("shardclock_server.sql").joinpath("moved_clock.sql").read_text(encoding="utf-8")
    async with session.transaction() as connection:
        await connection.execute(text)


async def move(session: Session, to: datetime) -> None:
    """Set the clock.

    errors:  StatementRefused  the database has Postgres's own clock
             StoreUnavailable  no answer before the timeout: call again
    """
    async with session.connection() as connection:
        await connection.execute(_MOVE, to)


async def next_due(
    session: Session, *, until: datetime | None = None, fire_until: datetime | None = None, holder: int = 0
) -> NextDue | None:
    """Find the next due row, overdue or in the future; return None if nothing is pending.

    If the row's due date is in the future and not after `until`, the statement also sets the clock to this date. If the
    date is not after `fire_until` and no schedule is due, the statement also fires the due timers for the shard
    `holder`.

    errors:  StoreUnavailable  no answer in time; the clock may have been set, and timers may have fired
             StatementRefused  a due timer can't fire, so no timer has fired; call again without `fire_until`
    source:  sql/clock/next_due.sql
    """
    row = await session.row("next_due", until=until, fire_until=fire_until, holder=holder, now=None)
    return NextDue(*row) if row else None


async def require_real_clock(session: Session) -> None:
    """Refuse to serve a database with a clock that a test moves.

    errors:  ClockMoved        a test moves the clock
             StoreUnavailable  no answer before the timeout
    """
    async with session.connection() as connection:
        if await connection.fetchval(_IS_MOVED):
            raise ClockMoved(
                "a test moves the clock of this database (it has the schema shardclock_clock), so its due dates don't"
                " follow real time: name a cluster's database in SHARDCLOCK_DSN"
            )
