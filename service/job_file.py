"""Jobs as they are described: all those of a file become so, or none does; and one alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shardclock_server.jobs.entry import EXAMPLE, JobEntry, read_entry
from shardclock_server.jobs.spec import InvalidJob
from shardclock_server.service.job_configs import misfits_of
from shardclock_server.sql.jobs.apply import JudgedJob, apply_jobs, judge_jobs
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.model import LINE_BYTES_MAX
from shardclock_server.timers.payload import read_json
from shardclock_server.timers.refusal import InvalidTimer, Refusal

JOBS_MAX = 1_000  # one transaction writes them
FILE_BYTES_MAX = 16 * 2**20


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """One job that can't be as the file describes it; `number` is its line, or its place in the array, from 1."""

    number: int
    why: str


@dataclass(slots=True)
class FileReport:
    """What became of a file's jobs, in its order; if one is refused, nothing was written.

    `unit` is what its jobs are numbered by: a line, or an element of the array.
    """

    jobs: list[JudgedJob] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)
    unit: str = "line"


async def apply_file(session: Session, content: bytes, *, dry_run: bool = False) -> FileReport:
    """Make the jobs of a file as it describes them: newline-delimited JSON, or one JSON array.

    errors:  Refusal           the file is no such JSON, has no job or too many, or somebody changed one of its jobs
                               meanwhile so that it is refused; nothing was written
             StoreUnavailable  the outcome is unknown: call again
    """
    report = FileReport()
    entries = dict(_entries_of(content, report, now=await read_clock(session)))
    if len(entries) + len(report.refused) > JOBS_MAX:
        raise Refusal(f"the file has more than {JOBS_MAX:,} jobs; split it")
    if not entries and not report.refused:
        raise Refusal(f"the file has no jobs; write a line for each, such as {EXAMPLE}")
    report.jobs = await _judge(session, list(entries.values()))
    report.refused += [
        RefusedEntry(number, job.refusal)
        for number, job in zip(entries, report.jobs, strict=True)
        if job.refusal is not None
    ]
    report.refused.sort(key=lambda entry: entry.number)
    if not report.refused and not dry_run:
        await _write(session, list(entries.values()))
    return report


async def apply_one(session: Session, entry: JobEntry) -> JudgedJob:
    """Make one job as it is described; return what that changed.

    errors:  Refusal           it can't be as described
             StoreUnavailable  the outcome is unknown: call again
    """
    (judged,) = await _judge(session, [entry])
    if judged.refusal is not None:
        raise Refusal(judged.refusal)
    await _write(session, [entry])
    return judged


async def _judge(session: Session, entries: Sequence[JobEntry]) -> list[JudgedJob]:
    """Say what jobs would change, and which of them are refused: also for a configuration that does not fit."""
    judged = await judge_jobs(session, entries)
    given = {entry.spec.name: (entry.spec.reference, entry.spec.config) for entry in entries if entry.spec.config}
    misfits = dict(zip(given, await misfits_of(session, given.values()), strict=True)) if given else {}
    return [replace(job, refusal=job.refusal or misfits.get(job.name)) for job in judged]


async def _write(session: Session, entries: Sequence[JobEntry]) -> None:
    try:
        await apply_jobs(session, entries)
    except StatementRefused as error:
        if not error.is_for_users:
            raise
        raise Refusal(f"{error}: somebody has changed it meanwhile, and nothing was written") from None


def _entries_of(content: bytes, report: FileReport, *, now: datetime) -> Iterator[tuple[int, JobEntry]]:
    """Read the jobs of a file with their numbers; report those that are refused."""
    numbers: dict[str, int] = {}
    for number, said in _numbered(content, report):
        try:
            entry = read_entry(_read_line(said) if isinstance(said, bytes) else said, now=now)
        except (InvalidJob, InvalidTimer) as refusal:
            report.refused.append(RefusedEntry(number, str(refusal)))
            continue
        first = numbers.setdefault(entry.spec.name, number)
        if first != number:
            why = f"name '{entry.spec.name}' is that of {report.unit} {first}, too; write each job once"
            report.refused.append(RefusedEntry(number, why))
            continue
        yield number, entry


def _numbered(content: bytes, report: FileReport) -> Iterator[tuple[int, object]]:
    """Give the elements of an array as values, or the lines that are not blank as bytes; from 1."""
    if not content.lstrip().startswith(b"["):
        yield from ((number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip())
        return
    try:
        array = read_json(content, bytes_max=FILE_BYTES_MAX, around=2)
    except InvalidTimer as refusal:
        raise Refusal(f"the file {refusal}") from None
    report.unit = "element"
    assert isinstance(array, list), "it begins with a bracket"
    yield from enumerate(array, 1)


def _read_line(line: bytes) -> object:
    try:
        return read_json(line.rstrip(b"\r"), bytes_max=LINE_BYTES_MAX, around=1)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"line {refusal}") from None
