"""One verb for all timers that a filter finds: a dry run counts them, and the real request does it."""

import hashlib
import re
import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from shardclock_server.gateway.access import BulkWriter
from shardclock_server.gateway.answers.timers import BulkAnswer, CountedAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import TimersFilter
from shardclock_server.gateway.requests.problems import MORE_MATCH, REFUSED, TRY_AGAIN, Problem
from shardclock_server.gateway.routes.creating import TIMERS
from shardclock_server.service.bulk_change import BulkChange, Change
from shardclock_server.service.bulk_run import BulkBroken
from shardclock_server.service.moves import destination_of
from shardclock_server.sql.clients.verbs import Shift, cancel_timers, pause_timers, resume_timers, shift_timers
from shardclock_server.timers.refusal import InvalidTimer, shortened

CHANGED_MAX = 100_000  # by one request
TOKEN_S = 600
TOKEN = re.compile(r"([0-9]{1,9})-([0-9]{1,12})-([0-9a-f]{16})-[0-9a-f]{24}")
CHOSEN = {"filter": {"name_prefix": "order-"}}
EXAMPLES = {
    "cancel": {**CHOSEN, "reason": "the shop is closed"},
    "pause": {**CHOSEN, "reason": "the shop is closed"},
    "resume": CHOSEN,
    "shift": {**CHOSEN, "shift": "PT1H"},
}

router = APIRouter(prefix=f"{TIMERS}/bulk", tags=["bulk"])


class BulkChangeRequest(BaseModel):
    """Which timers are changed, and how."""

    model_config = ConfigDict(extra="forbid")

    filter: TimersFilter = Field(default_factory=TimersFilter)
    reason: str | None = Field(None, max_length=1_000, description="kept in the records, of cancel and pause")
    shift: str | None = Field(None, examples=["PT1H"], description="how far they are moved, of shift")


DryRun = Annotated[bool, Query(description="count them only; the answer has the token that the real request needs")]
Token = Annotated[str | None, Query(description="of the dry run; good for ten minutes, and for that many timers")]


def _add_route(verb: str, sentence: str) -> None:
    async def change_timers(
        request: Request, gateway: Here, caller: BulkWriter, dry_run: DryRun = False, token: Token = None
    ) -> CountedAnswer | BulkAnswer:
        asked = await read_model(request, BulkChangeRequest)
        what = f"{caller.tenant_id}\n{verb}\n{asked.model_dump_json()}"
        counted = None if dry_run else _Counted.read(token, what)
        bulk = BulkChange(asked.filter.filter_of(caller), _change_of(verb, asked, operation=token or ""))
        async with gateway.pool.session(caller.tenants) as session:
            try:
                await bulk.run(session, _AtMost(counted.matched if counted else CHANGED_MAX), dry_run=dry_run)
            except BulkBroken as broken:
                raise Problem(
                    TRY_AGAIN,
                    f"{broken}; the same request does the rest",
                    matched=bulk.matched,
                    changed=bulk.changed,
                    unsure=bulk.unsure,
                ) from None
        if dry_run:
            token = _Counted.of(bulk.matched, what).token
            return CountedAnswer(matched=bulk.matched, token=token, left_out=bulk.left_out)
        if bulk.refusal is not None:
            raise Problem(REFUSED, str(bulk.refusal), matched=bulk.matched, changed=bulk.changed)
        return BulkAnswer(matched=bulk.matched, changed=bulk.changed, unsure=bulk.unsure, left_out=bulk.left_out)

    router.post(
        f"/{verb}",
        operation_id=f"{verb}_timers",
        summary=sentence,
        description=f"{sentence} First with `dry_run`, which counts them and gives a token; then with that token.",
        openapi_extra=body_of(BulkChangeRequest, is_needed=False, example=EXAMPLES[verb]),
    )(change_timers)


for _verb, _sentence in (
    ("cancel", "Cancel all timers that a filter finds."),
    ("pause", "Keep all timers that a filter finds from firing until they are resumed."),
    ("resume", "Resume all paused timers that a filter finds."),
    ("shift", "Move all timers that a filter finds, each from its own due date."),
):
    _add_route(_verb, _sentence)


def _change_of(verb: str, asked: BulkChangeRequest, *, operation: str) -> Change:
    """Find how a verb changes timers; a shift is named by its token, so that it moves none twice.

    errors:  InvalidTimer  something is given that the verb does not take, or a shift is missing
    """
    if asked.shift is not None and verb != "shift":
        raise InvalidTimer(f"shift {shortened(asked.shift)} is for the verb shift; leave it out")
    if asked.reason is not None and verb not in ("cancel", "pause"):
        raise InvalidTimer(f"reason {shortened(asked.reason)} is for cancel and pause; leave it out")
    match verb:
        case "cancel":
            return Change(("PENDING", "PAUSED"), partial(cancel_timers, reason=asked.reason))
        case "pause":
            return Change(("PENDING",), partial(pause_timers, reason=asked.reason))
        case "resume":
            return Change(("PAUSED",), resume_timers)
    if asked.shift is None:
        raise InvalidTimer('shift is missing: say how far, such as {"shift":"PT1H"}')
    by = destination_of({"shift": asked.shift})
    assert isinstance(by, Shift), "that is what a shift is read as"
    return Change(("PENDING", "PAUSED"), partial(shift_timers, by=by, operation=operation))


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a dry run has counted; its token binds the real request to it. Nothing about it is secret."""

    matched: int
    until_s: int
    token: str

    @classmethod
    def of(cls, matched: int, what: str, until_s: int | None = None, nonce: str | None = None) -> "_Counted":
        """Make the token of what was counted for a request."""
        until_s = int(time.time()) + TOKEN_S if until_s is None else until_s
        # Drawn, so that two dry runs of the same have two tokens: a shift is done once for each.
        nonce = secrets.token_hex(8) if nonce is None else nonce
        text = "\n".join((what, str(matched), str(until_s), nonce))
        return cls(matched, until_s, f"{matched}-{until_s}-{nonce}-{hashlib.sha256(text.encode()).hexdigest()[:24]}")

    @classmethod
    def read(cls, token: str | None, what: str) -> "_Counted":
        """Read the token that a real request brings.

        errors:  Problem  there is none, it is another request's, or it is too old
        """
        if token is None:
            raise Problem(
                REFUSED, "token is missing: first ask with dry_run=true, which counts the timers and gives one"
            )
        written = TOKEN.fullmatch(token)
        counted = None if written is None else cls.of(int(written[1]), what, int(written[2]), written[3])
        if counted is None or counted.token != token:
            raise Problem(REFUSED, f"token {shortened(token)} is not of this request; ask with dry_run=true again")
        if counted.until_s < time.time():
            raise Problem(REFUSED, f"token {token} is older than ten minutes; ask with dry_run=true again")
        return counted


@dataclass(frozen=True, slots=True)
class _AtMost:
    """Ends a bulk change that finds more timers than were counted, before it changes one."""

    timers: int

    def found(self, timers: int, *, all_found: bool) -> None:  # noqa: ARG002 - as the protocol has it
        """Compare the number with what is allowed."""
        if timers > self.timers:
            raise Problem(
                MORE_MATCH, f"more than {self.timers:,} timers match; count them again, or choose fewer", matched=timers
            )

    def changed(self, timers: int, *, of: int) -> None:
        """Take the number; whoever asked hears of it at the end."""
