"""Deploy and list models."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from shardclock_server.sql.session import Session

RUNNING_MAX = 1_000  # the limit for counting a version's instances, as in list_definitions.sql


@dataclass(frozen=True, slots=True)
class DescribedProcess:
    """One process of a new model.

    shape:   `description` is an object {process_id, name, starts, starts_by_hand} for `shardclock.deploy_model`;
             `task_types` has the types of the service tasks, without types that are expressions
    """

    description: dict[str, Any]
    task_types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Deployed:
    """One process of a deployed model; `is_new` is False if its newest version already has the same file."""

    definition_key: int
    process_id: str
    version: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class FoundDefinition:
    """One version of a process; `running` is the number of its running instances, counted up to 1,000."""

    definition_key: int
    tenant_id: str
    process_id: str
    version: int
    name: str
    resource: str
    deployed_at: datetime
    running: int


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """The model of a definition. The model may contain further processes."""

    process_id: str
    tenant_id: str
    model: bytes


async def deploy_model(
    session: Session, *, tenant_id: str, resource: str, model: bytes, processes: Sequence[DescribedProcess]
) -> list[Deployed]:
    """Deploy all processes of a validated model in one transaction.

    errors:  StoreUnavailable  the outcome is unknown: call again; an identical model changes nothing
             StatementRefused  the times of a start event can't be stored
    source:  sql/functions/processes/deploy_model.sql
    """
    rows = await session.call(
        "deploy_model",
        tenant_id=tenant_id,
        resource=resource,
        digest=sha256(model).digest(),
        model=model,
        processes=json.dumps([it.description for it in processes]),
    )
    return [Deployed(*row) for row in rows]


async def read_definition(session: Session, definition_key: int) -> StoredDefinition | None:
    """Read the model of a definition; None: the key is unknown.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/read_definition.sql
    """
    row = await session.row("read_definition", definition_key=definition_key)
    return StoredDefinition(*row) if row else None


async def list_definitions(
    session: Session,
    *,
    tenant_id: str | None = None,
    process_id: str | None = None,
    all_versions: bool = False,
    after: int = 0,
    page_size: int = 1_000,
) -> list[FoundDefinition]:
    """List deployed processes: only the newest version of each process, or all versions.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/list_definitions.sql
    """
    rows = await session.rows(
        "list_definitions",
        tenant_id=tenant_id,
        process_id=process_id,
        all_versions=all_versions,
        after=after,
        page_size=page_size,
    )
    return [FoundDefinition(*row) for row in rows]


async def delete_definition(session: Session, definition_key: int, *, tenant_id: str | None = None) -> bool:
    """Delete one version of a process; return False if the key is unknown.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/delete_definition.sql
    """
    given = {"definition_key": definition_key, "tenant_id": tenant_id}
    return bool(await session.call_one("delete_definition", **given) == "DELETED")
