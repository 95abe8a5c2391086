"""The types of fields in the filters of the console's pages."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer


def _read_moment(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return parse_due_date(text, None)
    except InvalidTimer as refusal:
        raise PydanticCustomError("moment", "{why}", {"why": str(refusal)}) from None


# A moment, in the formats that the API accepts.
Moment = Annotated[datetime, BeforeValidator(_read_moment)]
