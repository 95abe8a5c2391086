"""Create the error of a failed request: from a problem document, another server's response, or no response."""

import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

from shardclock.api.codes import IN_FLIGHT, NO_RESPONSE
from shardclock.api.errors import OWN_MEMBERS, UNKNOWN, ApiError, Problem, error_of
from shardclock.http.address import URL_VARIABLE, GatewayAddress
from shardclock.http.requests import Request
from shardclock.http.retrying import retry_after_s_of
from shardclock.reason import one_line

CHECK = f"check the client's url, given or in {URL_VARIABLE}"
# After these statuses, a retry may succeed. A proxy sends 502 and 504 while it can't reach the gateway.
PASSING = frozenset({429, 502, 503, 504})
FAILED = 500  # from this status on, the server has failed, and the outcome is unknown


def problem_error(request: Request, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Create the error for a response with a status that is not a success."""
    found = _object_of(body)
    kind, detail = found.get("type"), found.get("detail")
    is_problem = isinstance(kind, str) and isinstance(detail, str)
    is_in_flight = kind == IN_FLIGHT.type
    problem = Problem(
        type=str(kind) if is_problem else UNKNOWN,
        status=status,
        detail=str(detail) if is_problem else _foreign(request, status),
        members={name: value for name, value in found.items() if name not in OWN_MEMBERS},
        retry_after_s=retry_after_s_of(headers.get("retry-after"), datetime.now(UTC)),
        may_be_done=request.changes and (status >= FAILED or is_in_flight),
        may_pass=status in PASSING or is_in_flight,
    )
    return error_of(problem)


def foreign_error(request: Request, status: int) -> ApiError:
    """Create the error for a response that has a success status, but was not sent by a gateway."""
    return error_of(Problem(UNKNOWN, status, _foreign(request, status), may_be_done=request.changes))


def no_answer(request: Request, address: GatewayAddress, error: Exception, *, was_sent: bool) -> ApiError:
    """Create the error of an unanswered request; `was_sent`: the request may have arrived."""
    why = one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    problem = Problem(
        type=NO_RESPONSE.type,
        status=0,
        detail=f"{request.method} {request.path} got no answer from {address.url} ({why}); {address.check}",
        may_be_done=request.changes and was_sent,
        may_pass=not _is_about_a_certificate(error),
    )
    return error_of(problem)


def _foreign(request: Request, status: int) -> str:
    return f"{request.method} {request.path} was answered {status}, and not by a gateway; {CHECK}"


def _object_of(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_about_a_certificate(error: BaseException | None) -> bool:
    """Return whether the cause is an untrusted certificate of the server; then a retry can't help."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
