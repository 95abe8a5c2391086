"""Scheduling from a file: every line is scheduled, or refused with a reason; no line is lost silently."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import IO

from shardclock_server.service.lines import Part, Wanted, write_lines
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import LINE_BYTES_MAX, NewTimer
from shardclock_server.timers.refusal import Refusal

PART_LINES = 2_000
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


async def import_lines(
    sessions: Sequence[Session],
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

    errors:  ImportBroken  no answer from Postgres for some 20 s; it names the lines that may be done or not
    """

    def read(line: bytes) -> Wanted:
        return Wanted(NewTimer.from_line(line, **defaults))

    async with aclosing(write_lines(sessions, lines, read, part_lines=PART_LINES, retry=BATCH_RETRY)) as parts:
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


def numbered_lines(file: IO[bytes], *, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Read a file's lines with their numbers, from `start`, without a byte order mark at the beginning.

    A line that is too long is cut, so that it will be refused.

    errors:  Refusal  the text is UTF-16
    """
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 2):
        number += 1
        if number == 1:
            if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise Refusal("the file is refused: its text is UTF-16; encode it as UTF-8")
            line = line.removeprefix(BOM_UTF8)
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = line[: LINE_BYTES_MAX + 1] + (b"\n" if rest.endswith(b"\n") else b"")
        if number >= start:
            yield number, line
