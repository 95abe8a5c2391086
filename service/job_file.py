"""Write jobs from their descriptions: one job, or all jobs of a file.

If one job is invalid, the whole file is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shardclock.api.codes import invalid
from shardclock_server.jobs.entry import EXAMPLE, JobEntry, read_entry
from shardclock_server.jobs.spec import InvalidJob
from shardclock_server.service.job_configs import misfits_of
from shardclock_server.sql.jobs.apply import JudgedJob, apply_jobs, judge_jobs
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import LINE_BYTES_MAX
from shardclock_server.timers.payload import read_json
from shardclock_server.timers.refusal import InvalidTimer, Refusal

JOBS_MAX = 1_000  # one transaction writes all jobs of a file
FILE_BYTES_MAX = 16 * 2**20


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """A refused job of a file; `number` is the job's line or its element in the array, counted from 1."""

    number: int
    why: str


@dataclass(slots=True)
class FileReport:
    """The outcomes of a file's jobs, in the file's order; if one job is refused, no job was written.

    `unit` is the unit of the numbers: line, or element of the array.
    """

    jobs: list[JudgedJob] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)
    unit: str = "line"


async def apply_file(session: Session, content: bytes, *, dry_run: bool = False) -> FileReport:
    """Write the jobs that a file describes: newline-delimited JSON, or one JSON array.

    errors:  Refusal           the file is neither newline-delimited JSON nor a JSON array, or has no jobs or too many
                               jobs; or a job was changed concurrently, and is now refused: nothing was written
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
        await apply_jobs(session, list(entries.values()))
    return report


async def apply_one(session: Session, entry: JobEntry) -> JudgedJob:
    """Write one job from its description; return the change.

    errors:  Refusal           invalid_job
             StatementRefused  invalid_job: another request has changed the job at the same time
             StoreUnavailable  the outcome is unknown: call again
    """
    (judged,) = await _judge(session, [entry])
    if judged.refusal is not None:
        raise Refusal(judged.refusal, code=invalid("job"))
    await apply_jobs(session, [entry])
    return judged


async def _judge(session: Session, entries: Sequence[JobEntry]) -> list[JudgedJob]:
    """Return each job's change or refusal; also refuse a configuration that does not fit the job's function."""
    judged = await judge_jobs(session, entries)
    given = {entry.spec.name: (entry.spec.reference, entry.spec.config) for entry in entries if entry.spec.config}
    misfits = dict(zip(given, await misfits_of(session, given.values()), strict=True)) if given else {}
    return [replace(job, refusal=job.refusal or misfits.get(job.name)) for job in judged]


def _entries_of(content: bytes, report: FileReport, *, now: datetime) -> Iterator[tuple[int, JobEntry]]:
    """Read the jobs of a file with their numbers; add the refused jobs to the report."""
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
    """Yield each element of an array as a value, or each non-blank line as bytes, with its number, counted from 1."""
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
