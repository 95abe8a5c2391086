"""The command that explains why a timer fired or did not fire."""

from typing import Annotated

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.options import DEFAULT_TENANT, Key, Name, Tenant, Zone, clock_of, timer_ref_of
from shardclock_server.cli.output import DONE, Json, print_json, print_line, print_records
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service.authors import with_authors
from shardclock_server.service.explain import explain as explained
from shardclock_server.service.filters import moment_of
from shardclock_server.service.timeline import read_timeline
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session

RECORDS_SHOWN = 10


def explain(
    timer_key: Key = None,
    name: Name = None,
    tenant: Tenant = DEFAULT_TENANT,
    at: Annotated[str | None, typer.Option("--at", metavar="DATE", help="The moment to explain. Default: now.")] = None,
    zone: Zone = None,
    as_json: Json = False,
) -> int:
    """Explain from stored records why a timer or schedule fired or did not fire."""
    which = timer_ref_of(timer_key, name, tenant)
    asked = None if at is None else moment_of("--at", at, clock_of(zone))

    async def do(session: Session) -> int:
        now = await read_clock(session)
        moment = asked or now
        settings = load_settings()
        timeline = await read_timeline(
            session, which, moment, now, identity=settings.identity or "", silent_s=settings.coordinator.silent_s
        )
        answer = explained(await with_authors(session, timeline, tenant_id=None), moment)
        around = sorted(timeline.records, key=lambda record: abs(record.recorded_at - moment))[:RECORDS_SHOWN]
        records = [record for record in timeline.records if record in around]
        if as_json:
            print_json({"moment": moment, "verdict": answer.verdict, "why": answer.why, "records": records})
        else:
            print_line(f"timer {which}, {answer.verdict}: {answer.why}")
            print_records(records)
        return DONE if answer.verdict != "NONE" else NOT_DONE

    return with_session(do)
