"""One member of a consumer group: it finds work, waits for work, and reports what goes wrong and how often."""

import asyncio
import functools
import inspect
import socket
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from sql.backoff import Backoff
from sql.dsn import Dsn
from sql.hints import HintListener
from sql.log.groups import GroupDropped, Place, knows_group, note_failure, open_group, set_record_aside
from sql.log.hints import CHANNEL
from sql.log.pace import Pace
from sql.log.records import POLL_S, LogRecord
from sql.session import Session, StatementRefused, StoreUnavailable
from timers.model import SLOTS

RETRY = Backoff(0.2, 30.0)  # of a record, and while Postgres does not answer
GROUP_S = 10.0  # how often a member that finds no records checks whether its group still exists
ANSWER_S = 5.0  # the limit for our own statements; the work has a limit of its own
WORK_S = 60.0  # the limit for work in a transaction, met even by one slow record; a batch is sized to take 1 s
DATA_EXCEPTION = "22"  # the class of SQLSTATEs that mean: a value is wrong
INHERITS = frozenset({"search_path"})  # the work's own statements find tables as its author expects


class WorkTooSlow(Exception):
    """The work took longer than a transaction may take."""


class WorkCancelled(Exception):
    """A task that the work awaits was cancelled, and the work did not catch that."""

    def __init__(self) -> None:
        super().__init__(
            "the work let out a CancelledError, and nobody asked it to stop: a task that it awaits was cancelled"
        )


class WorkFailed(Exception):
    """Carries the error of a consumer's work, and the records it was on, out of the transaction that must be undone."""

    def __init__(self, place: Place, records: Sequence[LogRecord], error: Exception) -> None:
        super().__init__(error)
        self.place, self.records, self.error = place, records, error


class Member:
    """Do turns of a group's work until cancelled. A turn returns whether there may be more to do at once."""

    def __init__(
        self, dsn: Dsn | str, group: str, *, partitions: int | None = None, attempts: int | None = None
    ) -> None:
        if attempts is not None and attempts < 1:
            raise ValueError(f"attempts {attempts} is not possible: give 1 or more, or None to try for ever")
        if partitions is not None and not 1 <= partitions <= SLOTS:
            raise ValueError(f"partitions {partitions} is not possible: give 1 to {SLOTS}")
        self.group = group
        self.session = session_of(dsn, group)
        self.pace = Pace()
        self.attempts = attempts
        self.log = structlog.get_logger().bind(group=group)
        self._partitions = partitions
        self._hints = HintListener(self.session, CHANNEL)
        self._known_s = time.monotonic()

    async def run(self, turn: Callable[[], Awaitable[bool]]) -> None:
        """Register the group, then do turns; log an outage, and wait for its end.

        errors:  GroupDiffers      the group has another number of partitions
                 GroupDropped      it was dropped meanwhile
                 StatementRefused  the DSN is wrong, or the role lacks a right
        """
        opened, outages = False, 0
        async with self.session:
            while True:
                self._hints.forget()
                try:
                    if not opened:
                        await open_group(self.session, self.group, self._partitions)
                    opened = True
                    busy = await turn()
                    if not busy:
                        await self._check_group()
                        await self._hints.wait(POLL_S)
                except StoreUnavailable as error:
                    if not opened and isinstance(error.__cause__, socket.gaierror):
                        raise StatementRefused(f"the DSN's host is not known: {error}") from error
                    outages += 1
                    self.log.warning("Postgres does not answer", times=outages, error=str(error))
                    await asyncio.sleep(RETRY.scattered_s(outages))
                    continue
                if outages:
                    self.log.info("Postgres answers again", after_failures=outages)
                outages = 0

    async def _check_group(self) -> None:
        """Check now and then that the group still exists: a member of a dropped group would wait for ever."""
        now_s = time.monotonic()
        if now_s < self._known_s + GROUP_S:
            return
        if not await knows_group(self.session, self.group):
            raise GroupDropped(
                f"group '{self.group}' has been dropped: a member that starts makes it anew, at the log's beginning"
            )
        self._known_s = now_s

    async def fail(self, failure: WorkFailed) -> None:
        """Record and log an error; a record that fails alone is tried after longer and longer waits, then set aside."""
        place, records, alone = failure.place, failure.records, len(failure.records) == 1
        error = told(failure.error)
        if isinstance(failure.error, WorkTooSlow):
            self.pace.slow()
        else:
            self.pace.failed(len(records))
        wait_s = RETRY.scattered_s(place.attempts + 1) if alone else 0.0
        attempts = await self._note(place, error, alone=alone, wait_s=wait_s)
        what = {"partition": place.partition, "position": records[0].position, "error": error[:500]}
        if attempts is None:
            self.log.warning("work failed, and somebody else has done it", **what)
        elif not alone:
            self.log.warning("work failed on a batch, which is halved", records=len(records), **what)
        elif self.attempts is not None and attempts >= self.attempts:
            await self.set_aside(place, records[0], attempts)
        else:
            self.log.warning("work failed", attempts=attempts, retry_s=round(wait_s, 1), **what)

    async def _note(self, place: Place, error: str, *, alone: bool, wait_s: float) -> int | None:
        try:
            return await note_failure(self.session, place, error, alone=alone, wait_s=wait_s)
        except StatementRefused as refusal:
            # A database with another encoding may not have these letters. A refusal of another class has another cause.
            if not refusal.sqlstate.startswith(DATA_EXCEPTION):
                raise
            return await note_failure(self.session, place, ascii(error)[1:-1], alone=alone, wait_s=wait_s)

    async def set_aside(self, place: Place, record: LogRecord, attempts: int) -> None:
        """Pass over a record that has failed too often; it is kept in `records_aside`."""
        if await set_record_aside(self.session, place, record.position, attempts=attempts):
            self.log.error(
                "record set aside", partition=place.partition, position=record.position, timer_key=record.timer_key,
                attempts=attempts, see=f"shardclock consumers aside {self.group}",
            )  # fmt: skip


def check_work(work: Callable[..., object]) -> None:
    """Refuse work that can't be awaited, before anything is done."""
    bare = inspect.unwrap(work.func if isinstance(work, functools.partial) else work)
    bare = getattr(bare, "__func__", bare)
    if not inspect.isfunction(bare) or bare.__name__ == "<lambda>":
        return  # only the first call shows what it returns
    if not inspect.iscoroutinefunction(bare):
        raise TypeError(f"work must be `async def`: {bare.__qualname__} is a plain function")


def told(error: BaseException) -> str:
    """Describe an error in a text that Postgres can store and a terminal can show, whatever the error's own text is."""
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001 - an error of the work's own may do anything when asked
        text = f"(its text can't be had: {type(trouble).__name__})"
    text = f"{type(error).__name__}: {text}".replace("\0", r"\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def session_of(dsn: Dsn | str, group: str) -> Session:
    """Make a member's session, whose limits are long enough for the work on one record."""
    # Longer than the work may take: so we end the work first, and can say why.
    timeout_s = WORK_S * 1.5
    return Session(dsn, application=f"shardclock consumer {group}"[:63], timeout_s=timeout_s, inherits=INHERITS)
