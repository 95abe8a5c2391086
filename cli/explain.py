"""The command that says why a timer fired or didn't: explain."""

from typing import Annotated

import typer

from shardclock_server.cli.options import DEFAULT_TENANT, Key, Name, Tenant, Zone, clock_of, which_of
from shardclock_server.cli.output import DONE, NOT_DONE, Json, print_json, print_records, say
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service.explain import explain as explained
from shardclock_server.service.filters import moment_of
from shardclock_server.service.story import gather
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session

RECORDS_SHOWN = 10


def explain(
    timer_key: Key = None,
    name: Name = None,
    tenant: Tenant = DEFAULT_TENANT,
    at: Annotated[
        str | None, typer.Option("--at", metavar="DATE", help="About this moment; if not given, about now.")
    ] = None,
    zone: Zone = None,
    as_json: Json = False,
) -> int:
    """Say why a timer or schedule fired when it did, or why it didn't, from what was recorded."""
    which = which_of(timer_key, name, tenant)
    asked = None if at is None else moment_of("--at", at, clock_of(zone))

    async def do(session: Session) -> int:
        now = await read_clock(session)
        moment = asked or now
        settings = load_settings()
        story = await gather(
            session, which, moment, now, identity=settings.identity or "", silent_s=settings.coordinator.silent_s
        )
        answer = explained(story, moment)
        around = sorted(story.records, key=lambda record: abs(record.recorded_at - moment))[:RECORDS_SHOWN]
        records = [record for record in story.records if record in around]
        if as_json:
            print_json({"moment": moment, "verdict": answer.verdict, "why": answer.why, "records": records})
        else:
            say(f"timer {which}, {answer.verdict}: {answer.why}")
            print_records(records)
        return DONE if answer.verdict != "NONE" else NOT_DONE

    return with_session(do)
