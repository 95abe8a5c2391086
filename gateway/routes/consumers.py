"""Consumer groups over HTTP: lease, process, acknowledge.

A group gets each record at least once, in order per partition.
"""

import base64
import json
from contextlib import suppress

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import invalid
from shardclock.api.refusals.log import GROUP_DIFFERS, LEASE_LOST, UNKNOWN_GROUP
from shardclock.log import AsyncBatch as Batch
from shardclock.log import GroupDiffers, LeaseLost
from shardclock.log.async_groups import acknowledge_partition, open_group
from shardclock.log.async_leasing import LEASE_S_MAX, lease_batch
from shardclock.log.partition import PartitionState
from shardclock_server.gateway.access import Operator, audited_transaction
from shardclock_server.gateway.answers.log import (
    LEASE_TOKEN,
    GroupAnswer,
    GroupsAnswer,
    LeaseAnswer,
    PositionAnswer,
    RecordAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.shared_fields import seconds_of
from shardclock_server.gateway.requests.wait import WaitForMore, wait_s_of
from shardclock_server.service.consumers import position_of
from shardclock_server.sql.log.groups import drop_group, list_groups, reset_group
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.model import BIGINT_MAX, SLOTS
from shardclock_server.timers.refusal import Refusal, shortened

RECORDS_MAX = 1_000

router = APIRouter(prefix="/v1/consumers", tags=["consumers"])


class LeaseRequest(BaseModel):
    """The number of records to lease, and the time of the lease."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=RECORDS_MAX, description="the largest number of records to lease")
    lease: str = Field(
        "PT30S",
        examples=["PT30S"],
        description="the duration of the lease; afterwards another member gets the records that are not acknowledged",
    )
    partitions: int | None = Field(
        None, ge=1, le=SLOTS, description="for a new group: the number of members that can work at the same time"
    )


class AcknowledgeRequest(BaseModel):
    """The position up to which a member of the group has processed all records."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(description="the token of the lease")
    position: int | None = Field(
        None,
        ge=0,
        le=BIGINT_MAX,
        description="the position of the last processed record; null: all records of the lease are processed",
    )
    lease: str | None = Field(
        None, examples=["PT30S"], description="keep the lease for this time from now; null: end the lease"
    )


class SeekRequest(BaseModel):
    """The position from which a group continues."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(examples=["start"], description="the new position: start, end, a number, or a moment")
    partitions: int | None = Field(None, ge=1, le=SLOTS)


@router.get("")
async def list_consumers(gateway: CurrentGateway, _: Operator) -> GroupsAnswer:
    """List the groups that read the log, and each group's lag."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return GroupsAnswer(groups=[GroupAnswer.of(group) for group in await list_groups(session)])


@router.post(
    "/{group}/lease",
    operation_id="lease_records",
    response_model=LeaseAnswer,
    responses={204: {"description": "There is nothing to do now."}},
    openapi_extra=body_of(LeaseRequest, is_needed=False, example={"limit": 100, "lease": "PT30S"}),
)
async def lease(
    group: Name, request: Request, gateway: CurrentGateway, caller: Operator, wait: WaitForMore = None
) -> Response:
    """Lease the next records of a group; a new group begins at the start of the log."""
    asked = await read_model(request, LeaseRequest)
    lease_s, wait_s = _lease_s_of(asked.lease), wait_s_of(wait)
    async with gateway.pool.session(ALL_TENANTS) as session:
        try:
            await open_group(session, group, asked.partitions)
        except GroupDiffers as error:
            raise Refusal(str(error), code=GROUP_DIFFERS) from None

    async def read() -> Batch | None:
        async with gateway.pool.session(ALL_TENANTS) as session:
            batch = await lease_batch(session, group, limit=asked.limit, lease_s=lease_s)
            if batch is None or batch.records:
                return batch
            with suppress(LeaseLost):  # another member has moved the group in the meantime
                await acknowledge_partition(session, batch.state, batch.state.horizon, worked=False, keep_s=None)
            return None

    batch = await gateway.poll(read, request, caller.tenant_id, within_s=wait_s)
    if batch is None:
        return Response(status_code=204)
    return await listing(
        LeaseAnswer,
        "records",
        map(RecordAnswer.of, batch.records),
        token=_token_of(batch.state),
        partition=batch.state.partition,
        lease_s=lease_s,
    )


@router.post(
    "/{group}/acknowledge",
    operation_id="acknowledge_records",
    openapi_extra=body_of(AcknowledgeRequest, example={"token": LEASE_TOKEN, "position": 812}),
)
async def acknowledge(group: Name, request: Request, gateway: CurrentGateway, _: Operator) -> PositionAnswer:
    """Store the position up to which all records are processed, and extend or end the lease."""
    asked = await read_model(request, AcknowledgeRequest)
    state = _state_of(asked.token, group)
    position = max(state.horizon, state.position) if asked.position is None else asked.position
    if position > max(state.horizon, state.position):
        raise Refusal.of(invalid("position"), why=f"{position} is after the end of the lease, {state.horizon}")
    keep_s = None if asked.lease is None else _lease_s_of(asked.lease)
    async with gateway.pool.session(ALL_TENANTS) as session:
        try:
            moved = await acknowledge_partition(session, state, position, worked=True, keep_s=keep_s)
        except LeaseLost as error:
            raise Refusal.of(LEASE_LOST, why=error) from None
    return PositionAnswer(position=moved.position, token=None if keep_s is None else _token_of(moved))


@router.post("/{group}/seek", operation_id="seek_consumer", openapi_extra=body_of(SeekRequest, example={"to": "start"}))
async def seek(group: Name, request: Request, _: Operator) -> PositionAnswer:
    """Set a group's position, or its number of partitions."""
    asked = await read_model(request, SeekRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        to = await position_of(session, asked.to)
        position = await reset_group(session, group, position=to, partitions=asked.partitions)
        if position is None:
            raise _unknown(group)
    return PositionAnswer(position=position, token=None)


@router.delete("/{group}", operation_id="drop_consumer", status_code=204)
async def drop(request: Request, group: Name, _: Operator) -> None:
    """Delete a group, and the records that the group has set aside."""
    async with audited_transaction(request, ALL_TENANTS) as session:
        if not await drop_group(session, group):
            raise _unknown(group)


def _unknown(group: str) -> Refusal:
    return Refusal.of(UNKNOWN_GROUP, group=group)


def _lease_s_of(text: str) -> float:
    lease_s = seconds_of("lease", text)
    if not 0 < lease_s <= LEASE_S_MAX:
        raise Refusal.of(invalid("lease"), why=f"{shortened(text)} is refused: it must be more than zero, at most PT1H")
    return lease_s


def _token_of(state: PartitionState) -> str:
    numbers = (state.partition, state.partitions, state.position, state.attempts, state.horizon, state.lease)
    return base64.urlsafe_b64encode(json.dumps(numbers).encode()).decode()


def _state_of(token: str, group: str) -> PartitionState:
    try:
        numbers = [int(number) for number in json.loads(base64.urlsafe_b64decode(token.encode()))]
        if len(numbers) == 6 and max(map(abs, numbers)) < 2**63:
            return PartitionState(group, *numbers)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    raise Refusal.of(invalid("token"), why=f"{shortened(token)} belongs to no lease; send the token of the lease")
