"""What operators did, as it is stored."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class NewAct:
    """What an operator did, by which interface, and who it was as far as the program knows.

    shape:   `what` is bounded and has no secret: service/audit.py sees to that
    """

    interface: str
    verb: str
    what: Mapping[str, object]
    tenant_id: str | None = None
    key_prefix: str | None = None
    key_name: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator did, as it was recorded; `what` is a JSON text."""

    act_id: int
    recorded_at: datetime
    role: str
    interface: str
    key_prefix: str | None
    key_name: str | None
    tenant_id: str | None
    verb: str
    what: str
    outcome: str
    address: str | None


async def record_act(session: Session, act: NewAct, outcome: str) -> int:
    """Append a record of what an operator did; return its number.

    errors:  StoreUnavailable  the outcome is unknown: it may be recorded, or not
             StatementRefused  the role may not, or a rule of the table is broken
    source:  sql/functions/audit/record_act.sql
    """
    act_id = await session.call_one(
        "record_act",
        interface=act.interface,
        key_prefix=act.key_prefix,
        key_name=act.key_name,
        tenant_id=act.tenant_id,
        verb=act.verb,
        what=json.dumps(dict(act.what)),
        outcome=outcome,
        address=act.address,
    )
    return int(act_id)


async def list_acts(session: Session, *, since: datetime | None = None, limit: int) -> list[Act]:
    """List what operators did, the newest first.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer in time
    source:  sql/audit/list_acts.sql
    """
    return [Act(*row) for row in await session.rows("list_acts", since=since, limit=limit)]
