"""Parse the responses of a gateway."""

from typing import TypeVar

from pydantic import ValidationError

from shardclock.api.answers import Answer
from shardclock.http.problems import foreign_error
from shardclock.http.requests import Request

AnswerT = TypeVar("AnswerT", bound=Answer)


def read_answer(model: type[AnswerT], request: Request, body: bytes) -> AnswerT:
    """Parse the JSON of a success response.

    errors:  ApiError  the response does not come from a gateway
    """
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise foreign_error(request, 200) from None
