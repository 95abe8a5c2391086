"""Consumer groups over HTTP: lease records, work, acknowledge; each record at least once, in order in its partition."""

import base64
import json
from contextlib import suppress

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.log import AsyncBatch as Batch
from shardclock.log import GroupDiffers, LeaseLost
from shardclock.log.async_groups import move_place, open_group
from shardclock.log.async_leasing import LEASE_S_MAX, lease_batch
from shardclock.log.place import PartitionPlace
from shardclock_server.gateway.access import Operator, acting
from shardclock_server.gateway.answers.log import (
    LEASE_TOKEN,
    GroupAnswer,
    GroupsAnswer,
    LeaseAnswer,
    PlaceAnswer,
    RecordAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import seconds_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.problems import CONFLICT, NOT_FOUND, REFUSED, Problem
from shardclock_server.gateway.requests.wait import WaitForMore, wait_s_of
from shardclock_server.service.consumers import position_of
from shardclock_server.sql.log.groups import drop_group, list_groups, reset_group
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.model import BIGINT_MAX, SLOTS
from shardclock_server.timers.refusal import shortened

RECORDS_MAX = 1_000

router = APIRouter(prefix="/v1/consumers", tags=["consumers"])


class LeaseRequest(BaseModel):
    """How many records are leased, and for how long."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=RECORDS_MAX, description="records at most")
    lease: str = Field("PT30S", examples=["PT30S"], description="then another member gets what is not acknowledged")
    partitions: int | None = Field(
        None, ge=1, le=SLOTS, description="of a new group: so many members work side by side"
    )


class AcknowledgeRequest(BaseModel):
    """Up to where the work is done."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(description="of the lease")
    position: int | None = Field(
        None, ge=0, le=BIGINT_MAX, description="of the last record that is done; null: all of the lease are"
    )
    lease: str | None = Field(None, examples=["PT30S"], description="keep it for so long from now; null: give it back")


class SeekRequest(BaseModel):
    """Where a group reads on."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(examples=["start"], description="start, end, a position, or a moment")
    partitions: int | None = Field(None, ge=1, le=SLOTS)


@router.get("")
async def list_consumers(gateway: Here, _: Operator) -> GroupsAnswer:
    """List the groups that read the log, and how far behind each is."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return GroupsAnswer(groups=[GroupAnswer.of(group) for group in await list_groups(session)])


@router.post(
    "/{group}/lease",
    operation_id="lease_records",
    response_model=LeaseAnswer,
    responses={204: {"description": "There is nothing to do now."}},
    openapi_extra=body_of(LeaseRequest, is_needed=False, example={"limit": 100, "lease": "PT30S"}),
)
async def lease(group: Name, request: Request, gateway: Here, caller: Operator, wait: WaitForMore = None) -> Response:
    """Lease the next records of a group, which begins at the start of the log if it is new."""
    asked = await read_model(request, LeaseRequest)
    lease_s, wait_s = _lease_s_of(asked.lease), wait_s_of(wait)
    async with gateway.pool.session(ALL_TENANTS) as session:
        try:
            await open_group(session, group, asked.partitions)
        except GroupDiffers as error:
            raise Problem(CONFLICT, str(error)) from None

    async def look() -> Batch | None:
        async with gateway.pool.session(ALL_TENANTS) as session:
            batch = await lease_batch(session, group, limit=asked.limit, lease_s=lease_s)
            if batch is None or batch.records:
                return batch
            with suppress(LeaseLost):  # somebody has moved the group meanwhile
                await move_place(session, batch.place, batch.place.horizon, worked=False, keep_s=None)
            return None

    batch = await gateway.poll(look, request, caller.tenant_id, within_s=wait_s)
    if batch is None:
        return Response(status_code=204)
    return await listing(
        LeaseAnswer,
        "records",
        map(RecordAnswer.of, batch.records),
        token=_token_of(batch.place),
        partition=batch.place.partition,
        lease_s=lease_s,
    )


@router.post(
    "/{group}/acknowledge",
    operation_id="acknowledge_records",
    openapi_extra=body_of(AcknowledgeRequest, example={"token": LEASE_TOKEN, "position": 812}),
)
async def acknowledge(group: Name, request: Request, gateway: Here, _: Operator) -> PlaceAnswer:
    """Record that the work is done up to a record, and keep the lease or give it back."""
    asked = await read_model(request, AcknowledgeRequest)
    place = _place_of(asked.token, group)
    position = max(place.horizon, place.position) if asked.position is None else asked.position
    if position > max(place.horizon, place.position):
        raise Problem(REFUSED, f"position {position} is behind the lease, which ends at {place.horizon}")
    keep_s = None if asked.lease is None else _lease_s_of(asked.lease)
    async with gateway.pool.session(ALL_TENANTS) as session:
        try:
            moved = await move_place(session, place, position, worked=True, keep_s=keep_s)
        except LeaseLost as error:
            raise Problem(CONFLICT, f"{error}; stop the work, and lease again") from None
    return PlaceAnswer(position=moved.position, token=None if keep_s is None else _token_of(moved))


@router.post("/{group}/seek", operation_id="seek_consumer", openapi_extra=body_of(SeekRequest, example={"to": "start"}))
async def seek(group: Name, request: Request, _: Operator) -> PlaceAnswer:
    """Let a group read on from another place, or in other partitions."""
    asked = await read_model(request, SeekRequest)
    async with acting(request, ALL_TENANTS) as session:
        to = await position_of(session, asked.to)
        position = await reset_group(session, group, position=to, partitions=asked.partitions)
        if position is None:
            raise _unknown(group)
    return PlaceAnswer(position=position, token=None)


@router.delete("/{group}", operation_id="drop_consumer", status_code=204)
async def drop(request: Request, group: Name, _: Operator) -> None:
    """Forget a group, and the records that it has set aside."""
    async with acting(request, ALL_TENANTS) as session:
        if not await drop_group(session, group):
            raise _unknown(group)


def _unknown(group: str) -> Problem:
    return Problem(NOT_FOUND, f"there is no group {shortened(group)}")


def _lease_s_of(text: str) -> float:
    lease_s = seconds_of("lease", text)
    if not 0 < lease_s <= LEASE_S_MAX:
        raise Problem(REFUSED, f"lease {shortened(text)} is refused: it must be more than zero, at most PT1H")
    return lease_s


def _token_of(place: PartitionPlace) -> str:
    numbers = (place.partition, place.partitions, place.position, place.attempts, place.horizon, place.lease)
    return base64.urlsafe_b64encode(json.dumps(numbers).encode()).decode()


def _place_of(token: str, group: str) -> PartitionPlace:
    try:
        numbers = [int(number) for number in json.loads(base64.urlsafe_b64decode(token.encode()))]
        if len(numbers) == 6 and max(map(abs, numbers)) < 2**63:
            return PartitionPlace(group, *numbers)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    raise Problem(REFUSED, f"token {shortened(token)} is of no lease; send the one that the lease gave")
