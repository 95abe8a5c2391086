"""Schedule numbered lines, a part of them in each transaction; each line is scheduled, or refused with a reason."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, NamedTuple

from shardclock_server.sql.clients.outcomes import Refused, RequestDiffers, Scheduled
from shardclock_server.sql.clients.scheduling import Batch
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.requests.requests import IdempotentRequest
from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.sql.turns import Turns
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer

# In memory several times: as lines, as timers, and as the values of a statement.
PART_BYTES = 4 * 1024 * 1024


class Wanted(NamedTuple):
    """What one line asks for, and the request that it is if it has an idempotency key."""

    timer: NewTimer
    request: IdempotentRequest | None = None


@dataclass(slots=True)
class Part:
    """Some lines, in their order; when it is written, each that is not blank has an outcome, by its number.

    `repeats` are lines that are the same request as an earlier line of the part, whose number they have.
    """

    lines: Sequence[tuple[int, bytes]]
    timers: dict[int, NewTimer] = field(default_factory=dict)
    requests: dict[int, IdempotentRequest] = field(default_factory=dict)
    repeats: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, Scheduled | Refused] = field(default_factory=dict)
    _first: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def follows(self) -> bool:
        """Say whether it must be written after the parts before it: one name, or one request, may stand in both."""
        return bool(self.requests) or any(timer.name is not None for timer in self.timers.values())

    def add(self, number: int, wanted: Wanted) -> None:
        """Add what a line asks for, unless an earlier line has its idempotency key."""
        request = wanted.request
        if request is not None:
            first = self._first.setdefault(request.key, number)
            if first != number:
                self._repeat(number, first, request)
                return
            self.requests[number] = request
        self.timers[number] = wanted.timer

    def _repeat(self, number: int, first: int, request: IdempotentRequest) -> None:
        if request.fingerprint == self.requests[first].fingerprint:
            self.repeats[number] = first
        else:
            self.outcomes[number] = RequestDiffers(f"line {first} has its idempotency key, and asks for another timer")

    def end(self, outcomes: Sequence[Scheduled | Refused]) -> None:
        """Keep the outcomes of its timers, and answer repeated lines as the first ones."""
        self.outcomes |= zip(self.timers, outcomes, strict=True)
        for number, first in self.repeats.items():
            outcome = self.outcomes[first]
            self.outcomes[number] = replace(outcome, replayed=True) if isinstance(outcome, Scheduled) else outcome


async def admit_all(part: Part) -> None:
    """Let all timers of a part be written."""


class ImportBroken(Exception):
    """Postgres stopped answering in the middle of a file; the message says from which line to go on.

    Every line before `first_line` is done, and so is every line of a part that was yielded. Of the other lines up to
    `last_line` it is unknown. The other lines after `last_line` are not done.
    """

    def __init__(self, message: str, *, first_line: int, last_line: int) -> None:
        super().__init__(message)
        self.first_line = first_line
        self.last_line = last_line


async def write_lines(
    sessions: Sequence[Session],
    lines: Iterable[tuple[int, bytes]],
    read: Callable[[bytes], Wanted],
    *,
    part_lines: int,
    retry: Retry,
    admit: Callable[[Part], Awaitable[None]] = admit_all,
    patience: LockPatience | None = None,
) -> AsyncGenerator[Part, None]:
    """Schedule numbered lines, a part in each transaction; while Postgres works on some, the next is read.

    There is a session, one at least, for each part that is written at a time. A part has at most `part_lines` lines,
    and ends with the line that makes it 4 MiB. One with a name, or a request, waits for those before it.

    shape:   the parts, in their order, each when it is written; `read` raises InvalidTimer for a line that it refuses,
             and `admit` takes timers out of a part, and leaves outcomes instead
    errors:  ImportBroken  no answer from Postgres; all parts of which more is known were yielded
    """
    under_way = _UnderWay()
    try:
        for session, chunk in zip(cycle(sessions), _chunks(lines, part_lines), strict=False):
            part = await _read(chunk, read)
            await admit(part)
            await under_way.settle(all_but=0 if part.follows else len(sessions) - 1)
            if under_way.is_broken:
                break
            under_way.begin(part, _write(session, part, retry, patience))
            for written in under_way.take():
                yield written
        await under_way.settle()
        for written in under_way.take():
            yield written
        under_way.raise_broken()
    finally:
        await under_way.stop()


def _chunks(lines: Iterable[tuple[int, bytes]], lines_max: int) -> Iterator[list[tuple[int, bytes]]]:
    chunk, size = list[tuple[int, bytes]](), 0
    for number, line in lines:
        chunk.append((number, line))
        size += len(line)
        if len(chunk) == lines_max or size >= PART_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _UnderWay:
    """Parts that are being written, or have been and are not taken yet, in their order."""

    def __init__(self) -> None:
        self._parts: deque[tuple[Part, asyncio.Task[None]]] = deque()
        self._broken: list[tuple[Part, StoreUnavailable]] = []
        self._next_line = 0  # behind those that were begun

    @property
    def is_broken(self) -> bool:
        """Say whether one could not be written: no other may be begun."""
        return bool(self._broken) or any(task.done() and task.exception() for _, task in self._parts)

    def begin(self, part: Part, writing: Coroutine[Any, Any, None]) -> None:
        """Write one more."""
        self._next_line = part.lines[-1][0] + 1
        self._parts.append((part, asyncio.create_task(writing)))

    async def settle(self, *, all_but: int = 0) -> None:
        """Wait until no more than the newest of them are being written."""
        tasks = [task for _, task in self._parts]
        if older := tasks[: max(0, len(tasks) - all_but)]:
            await asyncio.wait(older)

    def take(self) -> Iterator[Part]:
        """Take those that are written, the oldest first."""
        while self._parts and self._parts[0][1].done():
            part, task = self._parts.popleft()
            try:
                task.result()
            except StoreUnavailable as error:
                self._broken.append((part, error))
            else:
                yield part

    def raise_broken(self) -> None:
        """Tell what is not known of those that are taken.

        errors:  ImportBroken  whether some were written
        """
        if self._broken:
            (first, error), (last, _) = self._broken[0], self._broken[-1]
            raise _broken(error, first.lines[0][0], last.lines[-1][0], self._next_line) from error

    async def stop(self) -> None:
        """Give up what is being written."""
        for _, task in self._parts:
            task.cancel()
        await self.settle()
        for _, task in self._parts:
            if not task.cancelled():
                task.exception()  # or asyncio logs that nobody has read it


def _broken(error: StoreUnavailable, first: int, last: int, following: int) -> ImportBroken:
    return ImportBroken(
        f"Postgres does not answer ({error}); whether lines {first} to {last} are done is unknown:"
        " see `shardclock list`, and schedule them by themselves if they are not."
        f" All others before line {following} are done: go on with --start-line {following}",
        first_line=first,
        last_line=last,
    )


async def _read(lines: Sequence[tuple[int, bytes]], read: Callable[[bytes], Wanted]) -> Part:
    part, turns = Part(lines), Turns()
    for number, line in lines:
        await turns.give()  # the part that is being written goes on
        if line.isspace():
            continue
        try:
            part.add(number, read(line.rstrip(b"\r\n")))
        except InvalidTimer as refusal:
            part.outcomes[number] = Refused(str(refusal))
    return part


async def _write(session: Session, part: Part, retry: Retry, patience: LockPatience | None) -> None:
    """Send a part again until its outcome is known; that writes no timer twice.

    errors:  StoreUnavailable  its outcome is not known
    """
    if not part.timers:
        part.end([])
        return
    batch = Batch(list(part.timers.values()), [part.requests.get(number) for number in part.timers])
    outcomes, _ = await retry.run(lambda: batch.send(session, patience))
    part.end(outcomes)
