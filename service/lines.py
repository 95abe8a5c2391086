"""Schedule numbered lines, one transaction per part. Each line is scheduled, or refused with a reason."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, NamedTuple

from shardclock.api.refusals.timers import KEY_OF_ANOTHER_LINE
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.sql.yielding import Yielder
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer

# The limit of a part's size. A part is in memory three times: as lines, as timers and as parameters.
PART_BYTES = 4 * 1024 * 1024


class LineTimer(NamedTuple):
    """The timer that a line describes, and its request if the line has an idempotency key."""

    timer: NewTimer
    request: IdempotentRequest | None = None


@dataclass(slots=True)
class LinePart:
    """Consecutive lines; after the write, `outcomes` maps the number of each non-blank line to its outcome.

    `repeats` maps the number of a repeated line to the number of the earlier, equal line of the part.
    """

    lines: Sequence[tuple[int, bytes]]
    timers: dict[int, NewTimer] = field(default_factory=dict)
    requests: dict[int, IdempotentRequest] = field(default_factory=dict)
    repeats: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, Scheduled | Refused] = field(default_factory=dict)
    _first: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def follows(self) -> bool:
        """Return whether earlier parts must be written first, because they may have the same names or requests."""
        return bool(self.requests) or any(timer.name is not None for timer in self.timers.values())

    def add(self, number: int, wanted: LineTimer) -> None:
        """Add a line's timer, unless an earlier line has the same idempotency key."""
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
            self.outcomes[number] = Refused.of(KEY_OF_ANOTHER_LINE, line=first)

    def end(self, outcomes: Sequence[Scheduled | Refused]) -> None:
        """Store the outcomes of the part's timers, and give each repeated line the outcome of the earlier line."""
        self.outcomes |= zip(self.timers, outcomes, strict=True)
        for number, first in self.repeats.items():
            outcome = self.outcomes[first]
            self.outcomes[number] = replace(outcome, replayed=True) if isinstance(outcome, Scheduled) else outcome


async def admit_all(part: LinePart) -> None:
    """Accept each timer of a part."""


class ImportBroken(Exception):
    """Postgres stopped answering in the middle of a file; the message names the line at which to continue.

    The lines before `first_line` and the lines of yielded parts have known outcomes. The outcomes of the other lines
    from `first_line` to `last_line` are unknown. No later line was sent.
    """

    def __init__(self, message: str, *, first_line: int, last_line: int) -> None:
        super().__init__(message)
        self.first_line = first_line
        self.last_line = last_line


async def write_lines(
    sessions: Sequence[Session],
    lines: Iterable[tuple[int, bytes]],
    read: Callable[[bytes], LineTimer],
    *,
    part_lines: int,
    retry: StoreRetry,
    admit: Callable[[LinePart], Awaitable[None]] = admit_all,
    patience: LockPatience | None = None,
) -> AsyncGenerator[LinePart, None]:
    """Schedule numbered lines, one transaction per part; read the next part during the write.

    Each of the sessions writes one part at a time. A part has at most `part_lines` lines, and ends earlier at the line
    with which its size reaches 4 MiB. A part with names or idempotency keys in its lines is written only after all
    earlier parts.

    shape:   the parts in order, each after its write; `read` raises InvalidTimer for a refused line; `admit` may
             replace timers of a part by outcomes
    errors:  ImportBroken  Postgres did not answer; all written parts were yielded before
    """
    pending = _PendingParts()
    try:
        for session, chunk in zip(cycle(sessions), _chunks(lines, part_lines), strict=False):
            part = await _read(chunk, read)
            await admit(part)
            await pending.settle(all_but=0 if part.follows else len(sessions) - 1)
            if pending.is_broken:
                break
            pending.begin(part, _write(session, part, retry, patience))
            for written in pending.take():
                yield written
        await pending.settle()
        for written in pending.take():
            yield written
        pending.raise_broken()
    finally:
        await pending.stop()


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


class _PendingParts:
    """A queue of parts, in order: parts that are being written, and written parts that the caller has not read yet."""

    def __init__(self) -> None:
        self._parts: deque[tuple[LinePart, asyncio.Task[None]]] = deque()
        self._broken: list[tuple[LinePart, StoreUnavailable]] = []
        self._next_line = 0  # the first line that is not in a part whose write has started

    @property
    def is_broken(self) -> bool:
        """Return whether the write of a part has failed; then no further write may start."""
        return bool(self._broken) or any(task.done() and task.exception() for _, task in self._parts)

    def begin(self, part: LinePart, writing: Coroutine[Any, Any, None]) -> None:
        """Start the write of another part."""
        self._next_line = part.lines[-1][0] + 1
        self._parts.append((part, asyncio.create_task(writing)))

    async def settle(self, *, all_but: int = 0) -> None:
        """Wait for the oldest writes, until at most `all_but` parts are still being written."""
        tasks = [task for _, task in self._parts]
        if older := tasks[: max(0, len(tasks) - all_but)]:
            await asyncio.wait(older)

    def take(self) -> Iterator[LinePart]:
        """Return the written parts that the caller has not read yet, the oldest first."""
        while self._parts and self._parts[0][1].done():
            part, task = self._parts.popleft()
            try:
                task.result()
            except StoreUnavailable as error:
                self._broken.append((part, error))
            else:
                yield part

    def raise_broken(self) -> None:
        """Raise an error if `take` has found a part with a failed write.

        errors:  ImportBroken  the outcome of one part or more is unknown
        """
        if self._broken:
            (first, error), (last, _) = self._broken[0], self._broken[-1]
            raise _broken(error, first.lines[0][0], last.lines[-1][0], self._next_line) from error

    async def stop(self) -> None:
        """Cancel the writes in progress."""
        for _, task in self._parts:
            task.cancel()
        await self.settle()
        for _, task in self._parts:
            if not task.cancelled():
                task.exception()  # retrieve the exception, because asyncio would log it


def _broken(error: StoreUnavailable, first: int, last: int, following: int) -> ImportBroken:
    return ImportBroken(
        f"Postgres does not answer ({error}); whether lines {first} to {last} are done is unknown:"
        " see `shardclock list`, and schedule the missing lines separately."
        f" All other lines before line {following} are done: continue with --start-line {following}",
        first_line=first,
        last_line=last,
    )


async def _read(lines: Sequence[tuple[int, bytes]], read: Callable[[bytes], LineTimer]) -> LinePart:
    part, yielder = LinePart(lines), Yielder()
    for number, line in lines:
        await yielder.yield_if_due()  # give the writes in progress a turn of the event loop
        if line.isspace():
            continue
        try:
            part.add(number, read(line.rstrip(b"\r\n")))
        except InvalidTimer as refusal:
            part.outcomes[number] = Refused(str(refusal), refusal.code)
    return part


async def _write(session: Session, part: LinePart, retry: StoreRetry, patience: LockPatience | None) -> None:
    """Send a part again until its outcome is known; the timers have keys, so no timer is written twice.

    errors:  StoreUnavailable  the outcome is unknown
    """
    if not part.timers:
        part.end([])
        return
    batch = ScheduleBatch(list(part.timers.values()), [part.requests.get(number) for number in part.timers])
    outcomes, _ = await retry.run(lambda: batch.send(session, patience))
    part.end(outcomes)
