"""All cases, by name, in the order in which they are run."""

from benchmarks.cases import drain, herd, lasting, paced, pending, repeat, schedule, start, takeover
from benchmarks.cases.case import Case

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        drain.CASE,
        paced.CASE,
        herd.CASE,
        pending.CASE,
        start.CASE,
        takeover.CASE,
        schedule.CASE,
        repeat.CASE,
        *lasting.CASES,
    )
}
