"""Schedule the timers of a file. Each line is scheduled, or refused with a reason."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import IO

from shardclock_server.service.lines import LinePart, LineTimer, write_lines
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import LINE_BYTES_MAX, NewTimer
from shardclock_server.timers.refusal import Refusal

PART_LINES = 2_000
BATCH_RETRY = StoreRetry(attempts=8)  # all attempts together last about 20 s


class UnreadableLine(Refusal):
    """The operating system can't read a line of the file; all earlier lines are scheduled or refused."""


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not scheduled."""

    number: int
    line: bytes
    why: str
    code: str


@dataclass(slots=True)
class ImportReport:
    """The outcomes of a file's lines; blank lines are not counted.

    shape:   `scheduled` includes `replaced` and `unchanged`. `replaced`: the line's timer replaced a pending timer with
             its name; `unchanged`: the line's timer existed already
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
    """Schedule numbered lines of newline-delimited JSON, one transaction per part, and fill the report.

    With `keep`, the report also contains the scheduled timers; for millions of lines, this takes much memory.
    `defaults` are the values of fields that a line omits.

    errors:  ImportBroken    Postgres did not answer for about 20 s; the message names the lines with unknown outcomes
             UnreadableLine  `lines` raised the error; the report has the outcomes of all earlier lines
    """
    failures: list[UnreadableLine] = []

    def read(line: bytes) -> LineTimer:
        return LineTimer(NewTimer.from_line(line, **defaults))

    async with aclosing(
        write_lines(sessions, _readable(lines, failures), read, part_lines=PART_LINES, retry=BATCH_RETRY)
    ) as parts:
        async for part in parts:
            _report(part, report, keep=keep)
            progress(report)
    if failures:
        raise failures[0]


def _readable(lines: Iterable[tuple[int, bytes]], failures: list[UnreadableLine]) -> Iterator[tuple[int, bytes]]:
    """Yield lines until a read fails, and store the failure, so that the caller can first write all earlier lines."""
    try:
        yield from lines
    except UnreadableLine as failure:
        failures.append(failure)


def _report(part: LinePart, report: ImportReport, *, keep: bool) -> None:
    texts = dict(part.lines)
    for number in sorted(part.outcomes):
        outcome = part.outcomes[number]
        if isinstance(outcome, Refused):
            report.refused.append(RefusedLine(number, texts[number], outcome.why, outcome.code.name))
            continue
        report.scheduled += 1
        report.replaced += outcome.outcome == "replaced"
        report.unchanged += outcome.outcome == "unchanged"
        if keep:
            report.timers.append((outcome, part.timers[number]))
    report.read_bytes += sum(len(line) for _, line in part.lines)
    report.next_line = part.lines[-1][0] + 1


def numbered_lines(file: IO[bytes], *, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Read a file's lines with their numbers, from line `start` on, without a byte order mark.

    A line over the limit is cut to one byte more than the limit, so that the parser refuses the line.

    errors:  Refusal  the text is UTF-16
             UnreadableLine  the operating system can't read a line
    """
    number = 0
    try:
        for number, line in enumerate(_lines(file), start=1):
            if number >= start:
                yield number, line
    except OSError as error:
        following = max(start, number + 1)
        raise UnreadableLine(
            f"line {following} can't be read: {error.strerror}; all lines before it are done: correct the cause, and go"
            f" on with --start-line {following}"
        ) from None


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    is_first = True
    while line := file.readline(LINE_BYTES_MAX + 2):
        if is_first:
            is_first = False
            if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                raise Refusal("the file is refused: its text is UTF-16; encode it as UTF-8")
            line = line.removeprefix(BOM_UTF8)
        while not line.endswith(b"\n") and (rest := file.readline(LINE_BYTES_MAX)):
            line = line[: LINE_BYTES_MAX + 1] + (b"\n" if rest.endswith(b"\n") else b"")
        yield line
