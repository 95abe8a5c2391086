"""What all answers share: their base, examples of what many have, and how a moment is written."""

from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shardclock.jsonb import stored_json
from shardclock_server.timers.moment import canonical_moment

KEY = Field(examples=[20514])
DUE = Field(examples=["2027-01-31T08:00:00Z"])
MOMENT = Field(examples=["2027-01-31T08:00:00.004Z"])
NAME = Field(examples=["order-4711"])
TENANT = Field(examples=["default"])
PAYLOAD = Field(examples=[{"order": 4711}])
NEXT = Field(examples=["eyJ0IjoyMDUxNH0"], description="the next request's `after`; null: there are no more")
MORE = Field(examples=[False], description="whether others are left")


class Answer(BaseModel):
    """Something that is answered."""

    model_config = ConfigDict(frozen=True)


@lru_cache(maxsize=1_024)  # lines of one request are due together, if they have the same delay
def moment_text(moment: datetime) -> str:
    """Write a moment, which is in UTC, as all answers do."""
    return canonical_moment(moment)


def value_of(text: str | None) -> Any:
    """Read a JSON text with `stored_json`; None is no value."""
    return None if text is None else stored_json(text)
