"""Refuse payloads that Postgres's jsonb can't store, and limit their size and depth."""

import json
import re
from collections import Counter
from decimal import Decimal
from typing import NoReturn

from shardclock.jsonb import DEPTH_MAX, HALF_PAIR, NOT_UTF8, NUL, STRING, TOO_DEEP, has_nul, is_too_deep
from shardclock_server.timers.refusal import InvalidTimer, shortened

PAYLOAD_BYTES_MAX = 65_536
INTEGER_DIGITS_MAX = 308

EXPONENTIAL = re.compile(r"[0-9.]+e[+-][0-9]+")
# jsonb writes numbers without exponents: in the worst case, 326 characters for 5e-324.
JSONB_GROWTH_MAX = 60


def parse_payload(text: str | bytes) -> str:
    """Check a JSON text for a jsonb column, and return the compact text that is stored.

    shape:   at most 65,536 bytes of UTF-8, both in the given text and in the text that jsonb returns, and at most 100
             levels
    errors:  InvalidTimer  the text is not JSON, or contains a value that jsonb or a double can't represent
    """
    return compact_payload(read_json(text, bytes_max=PAYLOAD_BYTES_MAX))


def payload_of(value: object) -> str:
    """Return the compact text of a JSON value, for storage.

    errors:  InvalidTimer  as `parse_payload`; or JSON can't represent the value
    """
    # Parse the formatted text again, to find duplicate keys and integers that are too long for a double.
    return parse_payload(_written(value))


def compact_payload(value: object) -> str:
    """Return the compact text of a value that `read_json` has parsed, for storage.

    errors:  InvalidTimer  as `parse_payload`
    """
    text = _written(value)
    if _jsonb_bytes(text) > PAYLOAD_BYTES_MAX:
        raise InvalidTimer(_too_long(text, PAYLOAD_BYTES_MAX))
    if is_too_deep(text):
        raise InvalidTimer(f"{shortened(text)} {TOO_DEEP}")
    if has_nul(text):
        raise InvalidTimer(f"{shortened(text)} {NUL}")
    return text


def read_json(text: str | bytes, *, bytes_max: int, around: int = 0) -> object:
    """Parse JSON more strictly than Python: no NaN, no number that a double can't represent, no duplicate key.

    shape:   `around` is the number of levels outside the payload, for example of a request's body; they don't count
             toward the depth limit
    errors:  InvalidTimer  the message names the text and its fault
    """
    decoded = _decoded(text, bytes_max)
    try:
        value = DECODER.decode(decoded)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:].rstrip(": ")
        raise InvalidTimer(f"{shortened(decoded)} is not JSON: {reason}, at character {error.pos + 1}") from None
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{shortened(decoded)} {refusal}") from None
    except RecursionError:
        raise InvalidTimer(f"{shortened(decoded)} {TOO_DEEP}") from None
    if is_too_deep(decoded, DEPTH_MAX + around):
        raise InvalidTimer(f"{shortened(decoded)} {TOO_DEEP}")
    return value


def _decoded(text: str | bytes, bytes_max: int) -> str:
    size = len(text) if isinstance(text, bytes) else _utf8_bytes(text)
    if size > bytes_max:
        raise InvalidTimer(_too_long(text, bytes_max))
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidTimer(f"{shortened(text)} {NOT_UTF8}") from None


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidTimer(f"{shortened(text)} {HALF_PAIR}") from None


def _written(value: object) -> str:
    try:
        return ENCODER.encode(value)
    except RecursionError:
        raise InvalidTimer(f"{shortened(value)} {TOO_DEEP}") from None
    except (TypeError, ValueError):
        raise InvalidTimer(
            f"{shortened(value)} has no form in JSON; use objects, arrays, text, finite numbers, booleans and null"
        ) from None


def _jsonb_bytes(text: str) -> int:
    """Return the bytes of `payload::text`, which the schema limits: jsonb adds spaces, and expands exponents."""
    size = _utf8_bytes(text)
    if size > PAYLOAD_BYTES_MAX or size * JSONB_GROWTH_MAX <= PAYLOAD_BYTES_MAX:
        return size
    bare = STRING.sub("", text)
    grown = sum(len(f"{Decimal(number):f}") - len(number) for number in EXPONENTIAL.findall(bare))
    return size + bare.count(",") + bare.count(":") + grown


def _too_long(text: str | bytes, bytes_max: int) -> str:
    return f"{shortened(text)} is longer than {bytes_max:,} bytes; keep the document elsewhere and store its key"


def _double(digits: str) -> float:
    number = float(digits)
    mantissa = digits.lower().partition("e")[0]
    if number in (float("inf"), float("-inf")) or (number == 0 and mantissa.strip("-0.")):
        _refuse_number(digits)
    return number


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > INTEGER_DIGITS_MAX:
        _refuse_number(digits)
    return int(digits)


def _refuse_number(digits: str) -> NoReturn:
    raise InvalidTimer(f"contains the number {shortened(digits)}, which a double can't represent; write it as a text")


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidTimer(f"contains {name}, which is no JSON number; write null or a text")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InvalidTimer(f"has the key {shortened(twice)} twice; write each key once")
    return fields


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_double, parse_int=_integer, parse_constant=_refuse_constant
)
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
