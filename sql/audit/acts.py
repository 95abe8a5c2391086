"""The stored records of operators' acts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import AwareDatetime

from shardclock_server.sql.page_cursors import Position
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class NewAuditRecord:
    """An operator's act: the operator's identity as far as it is known, the interface (for example the CLI), and the
    command.

    shape:   `parameters` has no secrets and a limited size (see service/audit.py); `key_name` is the name of an API key
             or of a person, and `subject` identifies the person at the identity provider
    """

    interface: str
    verb: str
    parameters: Mapping[str, object]
    tenant_id: str | None = None
    key_prefix: str | None = None
    key_name: str | None = None
    subject: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The stored record of an operator's act. `parameters` is a JSON text."""

    act_id: int
    recorded_at: datetime
    role: str
    interface: str
    key_prefix: str | None
    key_name: str | None
    subject: str | None
    tenant_id: str | None
    verb: str
    parameters: str
    outcome: str
    address: str | None

    @property
    def cursor(self) -> "AuditCursor":
        """Return the cursor of the page after this record."""
        return AuditCursor(self.recorded_at, self.act_id)


async def record_act(session: Session, act: NewAuditRecord, outcome: str) -> int:
    """Append the record of an operator's act; return its number.

    errors:  StoreUnavailable  the outcome is unknown: the act may be recorded, or not
             StatementRefused  the database role lacks a right, or a value violates a constraint of the table
    source:  sql/functions/audit/record_act.sql
    """
    act_id = await session.call_one(
        "record_act",
        interface=act.interface,
        key_prefix=act.key_prefix,
        key_name=act.key_name,
        subject=act.subject,
        tenant_id=act.tenant_id,
        verb=act.verb,
        parameters=json.dumps(dict(act.parameters)),
        outcome=outcome,
        address=act.address,
    )
    return int(act_id)


class AuditCursor(NamedTuple):
    """The start of a page in the list of audit records: the last record of the previous page."""

    recorded_at: AwareDatetime
    act_id: Position


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of audit records; a field with the value None does not filter.

    shape:   `verb` also matches longer verbs that begin with `verb` and a space; `actor` is the name or the prefix of
             an API key, the name or the subject of a person, or a database role
    """

    since: datetime | None = None
    verb: str | None = None
    actor: str | None = None


EVERY_ACT = AuditFilter()


async def list_acts(
    session: Session, wanted: AuditFilter = EVERY_ACT, *, limit: int, after: AuditCursor | None = None
) -> list[AuditRecord]:
    """List operators' acts, newest first.

    shape:   at most `limit`, after the cursor `after`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/audit/list_acts.sql
    """
    rows = await session.rows(
        "list_acts",
        since=wanted.since,
        verb=wanted.verb,
        actor=wanted.actor,
        after_at=after and after.recorded_at,
        after_id=after and after.act_id,
        limit=limit,
    )
    return [AuditRecord(*row) for row in rows]
