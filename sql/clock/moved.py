"""A clock that stands still until a test moves it, in a database that was made for that test.

The database says of itself that its clock is moved: it has the schema `shardclock_clock`. Whatever serves a cluster
refuses it. docs/decisions/0052-a-clock-that-tests-move.md.
"""

from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from shardclock_server.sql.migrate import WrongSchema
from shardclock_server.sql.session import Session

_IS_MOVED = "select to_regnamespace('shardclock_clock') is not null"
_MOVE = "select shardclock_clock.move_to($1)"


class ClockMoved(WrongSchema):
    """A test moves the database's clock, so nothing there is due when it says so."""


@dataclass(frozen=True, slots=True)
class NextDue:
    """The row that is due next: a timer (`claims` is 0), or a delivery for the `claims`-th time.

    `slot` is the slot of all timers that are due by then; None: they have several.
    """

    due_at: datetime
    timer_key: int
    name: str | None
    target: str
    claims: int
    slot: int | None = None


async def install(session: Session) -> None:
    """Give an empty database a clock that stands still, at the present moment; `migrate` comes after it.

    errors:  StatementRefused  the role is no superuser
             StoreUnavailable  no answer in time
    source:  sql/moved_clock.sql
    """
    text = files("shardclock_server.sql").joinpath("moved_clock.sql").read_text(encoding="utf-8")
    async with session.transaction() as connection:
        await connection.execute(text)


async def move(session: Session, to: datetime) -> None:
    """Set the clock.

    errors:  StatementRefused  the database's clock is not one that is moved
             StoreUnavailable  no answer in time: call again
    """
    async with session.connection() as connection:
        await connection.execute(_MOVE, to)


async def next_due(session: Session, *, until: datetime | None = None) -> NextDue | None:
    """Find what is due next, be it due already or far ahead; None: nothing is pending.

    The same statement sets the clock to its moment, if that is after now and not after `until`.

    errors:  StoreUnavailable  no answer in time; the clock may have been set
    source:  sql/clock/next_due.sql
    """
    row = await session.row("next_due", until=until)
    return NextDue(*row[:-1]) if row else None


async def require_real_clock(session: Session) -> None:
    """Refuse to serve a database whose clock a test moves.

    errors:  ClockMoved        says so
             StoreUnavailable  no answer in time
    """
    async with session.connection() as connection:
        if await connection.fetchval(_IS_MOVED):
            raise ClockMoved(
                "a test moves the clock of this database (it has the schema shardclock_clock), so nothing in it is due"
                " when it says so: name a cluster's database in SHARDCLOCK_DSN"
            )
