"""Look ahead: what a rule will do, before anything is scheduled by it."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from gateway.access import Reader
from gateway.answers.timers import OccurrenceAnswer, PreviewAnswer
from timers.moment import parse_due_date
from timers.preview import Foreseen, preview
from timers.schedule import first_of, parse_schedule
from timers.zone import zone_of

FORESEEN_MAX = 1_000

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


@router.get("/preview")
async def preview_schedule(
    _: Reader,
    rule: Annotated[str, Query(description="an ISO 8601 repeat or cron", examples=["0 8 * * MON"])],
    zone: Annotated[str, Query(description="whose clock the rule is for", examples=["Europe/Berlin"])] = "UTC",
    count: Annotated[int, Query(ge=1, le=FORESEEN_MAX)] = 10,
    start: Annotated[str | None, Query(alias="from", description="as if scheduled then; if not given, now")] = None,
) -> PreviewAnswer:
    """Show when a schedule will fire, and where a change of the clock matters."""
    clock = zone_of(zone)
    schedule = parse_schedule(rule, clock.key)
    created = datetime.now(UTC).replace(microsecond=0) if start is None else parse_due_date(start, schedule.zone)

    def foresee() -> list[Foreseen]:
        first_of(schedule, created)
        return preview(schedule, created, count=count)

    # Many occurrences of a rare rule take a second: others have their turn meanwhile.
    foreseen = await asyncio.to_thread(foresee)
    return PreviewAnswer(occurrences=[OccurrenceAnswer.of(one) for one in foreseen])
