"""Read why something was not done: from an answer that is a problem, from one that is not a gateway's, or from none."""

import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

from shardclock.api.errors import OWN_MEMBERS, PREFIX, UNKNOWN, ApiError, Problem, error_of
from shardclock.http.asked import Asked
from shardclock.http.place import URL_VARIABLE, Place
from shardclock.http.retrying import retry_after_s_of
from shardclock.reason import one_line

CHECK = f"check the client's url, given or in {URL_VARIABLE}"
IN_FLIGHT = f"{PREFIX}in-flight"
# 502 and 504 come from what stands before a gateway, while that one is away.
PASSING = frozenset({429, 502, 503, 504})
FAILED = 500  # from here on it is the server's fault, and nobody knows how far it came


def problem_error(asked: Asked, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Make an error of an answer that is no success."""
    found = _object_of(body)
    kind, detail = found.get("type"), found.get("detail")
    is_problem = isinstance(kind, str) and isinstance(detail, str)
    is_in_flight = kind == IN_FLIGHT
    problem = Problem(
        type=str(kind) if is_problem else UNKNOWN,
        status=status,
        detail=str(detail) if is_problem else _foreign(asked, status),
        members={name: value for name, value in found.items() if name not in OWN_MEMBERS},
        retry_after_s=retry_after_s_of(headers.get("retry-after"), datetime.now(UTC)),
        may_be_done=asked.changes and (status >= FAILED or is_in_flight),
        may_pass=status in PASSING or is_in_flight,
    )
    return error_of(problem)


def foreign_error(asked: Asked, status: int) -> ApiError:
    """Make an error of an answer that says it was done, and not in the words of a gateway."""
    return error_of(Problem(UNKNOWN, status, _foreign(asked, status), may_be_done=asked.changes))


def no_answer(asked: Asked, place: Place, error: Exception, *, was_sent: bool) -> ApiError:
    """Make an error of a request that was not answered; `was_sent`: it may have arrived."""
    why = one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    problem = Problem(
        type=f"{PREFIX}no-answer",
        status=0,
        detail=f"{asked.method} {asked.path} got no answer from {place.url} ({why}); {place.check}",
        may_be_done=asked.changes and was_sent,
        may_pass=not _is_about_a_certificate(error),
    )
    return error_of(problem)


def _foreign(asked: Asked, status: int) -> str:
    return f"{asked.method} {asked.path} was answered {status}, and not by a gateway; {CHECK}"


def _object_of(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_about_a_certificate(error: BaseException | None) -> bool:
    """Say whether a server has shown a certificate that is not trusted: that does not pass by itself."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
