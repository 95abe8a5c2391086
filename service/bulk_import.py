"""Scheduling from a file: every line is scheduled, or refused with a reason; no line is lost silently."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO, NamedTuple

from sql.clients.outcomes import Refused, RequestDiffers, Scheduled
from sql.clients.pending import Batch, LockPatience
from sql.requests.requests import IdempotentRequest
from sql.retry import Retry
from sql.session import Session, StoreUnavailable
from sql.turns import Turns
from timers.model import LINE_BYTES_MAX, NewTimer
from timers.refusal import InvalidTimer

PART_LINES = 1_000
BATCH_RETRY = Retry(attempts=8)  # about 20 s in all


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """One line that was not scheduled."""

    number: int
    line: bytes
    why: str


@dataclass(slots=True)
class ImportReport:
    """What became of a file's lines; blank lines don't count.

    `scheduled` includes the lines that `replaced` a timer of the same name, and those whose timer existed already and
    was left `unchanged`.
    """

    timers: list[tuple[Scheduled, NewTimer]] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)
    scheduled: int = 0
    replaced: int = 0
    unchanged: int = 0
    read_bytes: int = 0
    next_line: int = 1


class ImportBroken(Exception):
    """Postgres stopped answering in the middle of a file; the message says from which line to go on.

    Whether the lines from `first_line` to `last_line` are done is unknown; those before are done, those behind are not.
    """

    def __init__(self, message: str, *, first_line: int, last_line: int) -> None:
        super().__init__(message)
        self.first_line = first_line
        self.last_line = last_line


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


async def import_lines(
    session: Session,
    lines: Iterable[tuple[int, bytes]],
    report: ImportReport,
    *,
    keep: bool = False,
    defaults: Mapping[str, object] = {},
    progress: Callable[[ImportReport], None] = lambda _: None,
) -> None:
    """Schedule numbered lines of newline-delimited JSON, one transaction for each part, and write the report.

    `keep` also keeps the scheduled timers in the report; a file of millions would need too much memory for that. Each
    line gets the `defaults` for fields that it does not have.

    errors:  ImportBroken  no answer from Postgres for some 20 s; all lines before the one it names are done
    """

    def read(line: bytes) -> Wanted:
        return Wanted(NewTimer.from_line(line, **defaults))

    async with aclosing(write_lines(session, lines, read)) as parts:
        async for part in parts:
            _report(part, report, keep=keep)
            progress(report)


def _report(part: Part, report: ImportReport, *, keep: bool) -> None:
    texts = dict(part.lines)
    for number in sorted(part.outcomes):
        outcome = part.outcomes[number]
        if isinstance(outcome, Refused):
            report.refused.append(RefusedLine(number, texts[number], outcome.why))
            continue
        report.scheduled += 1
        report.replaced += outcome.outcome == "replaced"
        report.unchanged += outcome.outcome == "unchanged"
        if keep:
            report.timers.append((outcome, part.timers[number]))
    report.read_bytes += sum(len(line) for _, line in part.lines)
    report.next_line = part.lines[-1][0] + 1


async def write_lines(
    session: Session,
    lines: Iterable[tuple[int, bytes]],
    read: Callable[[bytes], Wanted],
    *,
    part_lines: int = PART_LINES,
    admit: Callable[[Part], Awaitable[None]] = admit_all,
    retry: Retry = BATCH_RETRY,
    patience: LockPatience | None = None,
) -> AsyncGenerator[Part, None]:
    """Schedule numbered lines, a part in each transaction; while Postgres works on one, the next is read.

    shape:   the parts, in their order, each when it is written; `read` raises InvalidTimer for a line that it refuses,
             and `admit` takes timers out of a part, and leaves outcomes instead
    errors:  ImportBroken  no answer from Postgres; all parts before were yielded
    """
    source = iter(lines)
    writing: asyncio.Task[Part] | None = None
    try:
        while chunk := list(islice(source, part_lines)):
            part = await _read(chunk, read)
            await admit(part)
            written = await writing if writing else None
            writing = asyncio.create_task(_write(session, part, retry, patience))
            if written is not None:
                yield written
        if writing is not None:
            yield await writing
    finally:
        if writing is not None and not writing.done():
            writing.cancel()
            await asyncio.wait([writing])


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


async def _write(session: Session, part: Part, retry: Retry, patience: LockPatience | None) -> Part:
    """Send a part again until its outcome is known; that writes no timer twice."""
    if not part.timers:
        part.end([])
        return part
    batch = Batch(list(part.timers.values()), [part.requests.get(number) for number in part.timers])
    try:
        outcomes, _ = await retry.run(lambda: batch.send(session, patience))
    except StoreUnavailable as error:
        first, last = part.lines[0][0], part.lines[-1][0]
        raise ImportBroken(
            f"Postgres does not answer ({error}); all lines before {first} are done, whether those from "
            f"{first} on are is unknown: see `shardclock list`, then go on with --start-line",
            first_line=first,
            last_line=last,
        ) from error
    part.end(outcomes)
    return part


def numbered_lines(file: IO[bytes], *, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Read a file's lines with their numbers, from `start`; cut a line that is too long, so that it will be refused."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 2):
        number += 1
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = line[: LINE_BYTES_MAX + 1] + (b"\n" if rest.endswith(b"\n") else b"")
        if number >= start:
            yield number, line
