"""Read what a gateway has answered."""

from typing import TypeVar

from pydantic import ValidationError

from shardclock.api.answers import Answer
from shardclock.http.asked import Asked
from shardclock.http.problems import foreign_error

AnswerT = TypeVar("AnswerT", bound=Answer)


def read_answer(model: type[AnswerT], asked: Asked, body: bytes) -> AnswerT:
    """Read the JSON of an answer that says it was done.

    errors:  ApiError  it is not in the words of a gateway
    """
    try:
        return model.model_validate_json(body)
    except ValidationError:
        raise foreign_error(asked, 200) from None
