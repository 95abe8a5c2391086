"""Scheduling from a file: every line is scheduled, or refused with a reason; none is lost silently."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO

from sql.pending import Drawn, Refused, Scheduled, draw_keys, schedule_timers
from sql.session import Session, StoreUnavailable
from timers.model import LINE_BYTES_MAX, NewTimer
from timers.refusal import InvalidTimer

BATCH_LINES = 1_000
PATIENCE = 8  # tries for one batch, with pauses that grow to 5 s: about 20 s in all
PAUSE_MAX_S = 5.0


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """One line that was not scheduled."""

    number: int
    line: bytes
    why: str


@dataclass(slots=True)
class Report:
    """What became of a file's lines; blank ones don't count."""

    timers: list[tuple[Scheduled, NewTimer]] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)
    scheduled: int = 0
    read_bytes: int = 0
    next_line: int = 1


class ImportBroken(Exception):
    """Postgres went away for good in mid-file; the message says from which line to go on."""


async def import_lines(
    session: Session,
    lines: Iterable[tuple[int, bytes]],
    report: Report,
    *,
    keep: bool = False,
    progress: Callable[[Report], None] = lambda _: None,
) -> None:
    """Schedule numbered lines of newline-delimited JSON, a batch a transaction, into the report.

    `keep` holds the scheduled timers in the report as well, which a file of millions should not.

    errors:  ImportBroken  no answer from Postgres for some 20 s; all lines before the one it names are done
    """
    source = iter(lines)
    while batch := list(islice(source, BATCH_LINES)):
        numbered = list(_checked(batch, report))
        outcomes = await _schedule(session, [timer for _, _, timer in numbered], batch[0][0])
        for (number, line, timer), outcome in zip(numbered, outcomes, strict=True):
            if isinstance(outcome, Refused):
                report.refused.append(RefusedLine(number, line, outcome.why))
                continue
            report.scheduled += 1
            if keep:
                report.timers.append((outcome, timer))
        report.read_bytes += sum(len(line) for _, line in batch)
        report.next_line = batch[-1][0] + 1
        report.refused.sort(key=lambda refused: refused.number)
        progress(report)


def numbered_lines(file: IO[bytes], *, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Read a file's lines with their numbers, from `start`; one that is too long is cut, and will be refused."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 2):
        number += 1
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = line[: LINE_BYTES_MAX + 1] + (b"\n" if rest.endswith(b"\n") else b"")
        if number >= start:
            yield number, line


def _checked(batch: Iterable[tuple[int, bytes]], report: Report) -> Iterator[tuple[int, bytes, NewTimer]]:
    for number, line in batch:
        if line.isspace():
            continue
        try:
            yield number, line, NewTimer.from_line(line.rstrip(b"\r\n"))
        except InvalidTimer as refusal:
            report.refused.append(RefusedLine(number, line, str(refusal)))


async def _schedule(session: Session, timers: list[NewTimer], first_line: int) -> list[Scheduled | Refused]:
    """Send a batch until its outcome is known: under the same keys, so that no timer is written twice."""
    if not timers:
        return []
    drawn: Drawn | None = None
    pause_s = 0.2
    for attempt in range(1, PATIENCE + 1):
        try:
            drawn = drawn or await draw_keys(session, len(timers))
            return await schedule_timers(session, drawn, timers)
        except StoreUnavailable as error:
            if attempt == PATIENCE:
                raise ImportBroken(
                    f"Postgres does not answer ({error}); all lines before {first_line} are done, whether those from "
                    f"{first_line} on are is unknown: see `shardclock list`, then go on with --start-line"
                ) from error
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
    raise AssertionError("the last attempt returns or raises")
