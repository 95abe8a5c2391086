"""The shared parts of response models: examples for the client's models, and the format of moments."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock.jsonb import stored_json
from shardclock_server.timers.moment import canonical_moment

MOMENT_TEXT = "2027-01-31T08:00:00.004Z"
OFTEN: dict[str, Any] = {
    "timer_key": 20514,
    "due_date": "2027-01-31T08:00:00Z",
    "name": "order-4711",
    "tenant_id": "default",
    "payload": {"order": 4711},
    "recorded_at": MOMENT_TEXT,
    "created_at": MOMENT_TEXT,
    "started_at": MOMENT_TEXT,
    "process_id": "order",
    "version": 3,
    "definition_key": 30001,
    "instance_key": 31007,
    "node_id": "approve",
    "business_key": "order-42",
    "more": False,
    "next": "eyJ0IjoyMDUxNH0",
    "matched": 2,
    "left_out": 0,
    "outcome": "created",
}

DUE = Field(examples=[OFTEN["due_date"]])
MOMENT = Field(examples=[MOMENT_TEXT])
KEY = Field(examples=[OFTEN["timer_key"]])
NAME = Field(examples=[OFTEN["name"]])
TENANT = Field(examples=[OFTEN["tenant_id"]])
NEXT = Field(examples=[OFTEN["next"]], description="the value of `after` for the next request; null on the last page")


class RowAnswer(Answer):
    """A response model with the same field names as a row."""

    @classmethod
    def of(cls, row: object) -> Self:
        """Create the response model from a row."""
        return cls.model_validate(row, from_attributes=True)


def examples(**own: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that adds examples to the OpenAPI schema of a response model, and marks each field as required.

    `own` maps fields to examples. A field without an entry gets the example that OFTEN has for the field's name.
    """

    def add(schema: dict[str, Any]) -> None:
        properties = schema["properties"]
        schema["required"] = list(properties)
        for name, field in properties.items():
            field.pop("default", None)
            if name in own or name in OFTEN:
                field["examples"] = [own.get(name, OFTEN.get(name))]

    return add


@lru_cache(maxsize=1_024)  # many timers of one request may have the same due date
def moment_text(moment: datetime) -> str:
    """Format a UTC moment."""
    return canonical_moment(moment)


def value_of(text: str | None) -> Any:
    """Parse a JSON text with `stored_json`; None stays None."""
    return None if text is None else stored_json(text)
