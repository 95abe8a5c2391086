"""Scheduling from a file: every line is scheduled, or refused with a reason; no line is lost silently."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import IO

from sql.clients.pending import Batch, Refused, Scheduled
from sql.retry import Retry
from sql.session import Session, StoreUnavailable
from timers.model import LINE_BYTES_MAX, NewTimer
from timers.refusal import InvalidTimer

BATCH_LINES = 1_000
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
    """Postgres stopped answering in the middle of a file; the message says from which line to go on."""


async def import_lines(
    session: Session,
    lines: Iterable[tuple[int, bytes]],
    report: ImportReport,
    *,
    keep: bool = False,
    defaults: Mapping[str, object] = {},
    progress: Callable[[ImportReport], None] = lambda _: None,
) -> None:
    """Schedule numbered lines of newline-delimited JSON, one transaction for each batch, and write the report.

    `keep` also keeps the scheduled timers in the report; a file of millions would need too much memory for that. Each
    line gets the `defaults` for fields that it does not have.

    errors:  ImportBroken  no answer from Postgres for some 20 s; all lines before the one it names are done
    """
    source = iter(lines)
    while batch := list(islice(source, BATCH_LINES)):
        numbered = list(_checked(batch, report, defaults))
        outcomes = await _schedule(session, [timer for _, _, timer in numbered], batch[0][0])
        for (number, line, timer), outcome in zip(numbered, outcomes, strict=True):
            if isinstance(outcome, Refused):
                report.refused.append(RefusedLine(number, line, outcome.why))
                continue
            report.scheduled += 1
            report.replaced += outcome.outcome == "replaced"
            report.unchanged += outcome.outcome == "unchanged"
            if keep:
                report.timers.append((outcome, timer))
        report.read_bytes += sum(len(line) for _, line in batch)
        report.next_line = batch[-1][0] + 1
        report.refused.sort(key=lambda refused: refused.number)
        progress(report)


def numbered_lines(file: IO[bytes], *, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Read a file's lines with their numbers, from `start`; cut a line that is too long, so that it will be refused."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 2):
        number += 1
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = line[: LINE_BYTES_MAX + 1] + (b"\n" if rest.endswith(b"\n") else b"")
        if number >= start:
            yield number, line


def _checked(
    batch: Iterable[tuple[int, bytes]], report: ImportReport, defaults: Mapping[str, object]
) -> Iterator[tuple[int, bytes, NewTimer]]:
    for number, line in batch:
        if line.isspace():
            continue
        try:
            yield number, line, NewTimer.from_line(line.rstrip(b"\r\n"), **defaults)
        except InvalidTimer as refusal:
            report.refused.append(RefusedLine(number, line, str(refusal)))


async def _schedule(session: Session, timers: list[NewTimer], first_line: int) -> list[Scheduled | Refused]:
    """Send a batch again until its outcome is known; that writes no timer twice."""
    if not timers:
        return []
    batch = Batch(timers)
    try:
        outcomes, _ = await BATCH_RETRY.run(lambda: batch.send(session))
    except StoreUnavailable as error:
        raise ImportBroken(
            f"Postgres does not answer ({error}); all lines before {first_line} are done, whether those from "
            f"{first_line} on are is unknown: see `shardclock list`, then go on with --start-line"
        ) from error
    return outcomes
