"""Change open deliveries: end one, or make next attempts due now.

All operations on deliveries are safe to repeat. The result of a repeated call is correct, too: for an ended delivery,
the result is how the delivery ended.
"""

from collections.abc import Sequence

from shardclock_server.sql.session import Session


async def cancel_delivery(session: Session, timer_key: int, *, reason: str | None = None) -> str:
    """End a delivery that no worker has claimed; return its state: DISCARDED, IN_HAND, DEAD, DELIVERED or UNKNOWN.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the delivery is a start of a job
    source:  sql/functions/deliveries/cancel_delivery.sql
    """
    return str(await session.call_one("cancel_delivery", timer_key=timer_key, reason=reason))


async def retry_delivery(session: Session, timer_key: int) -> str:
    """Make the next attempt of a delivery due now, and return DUE, IN_HAND, or how the delivery ended.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/deliveries/retry_delivery.sql
    """
    return str(await session.call_one("retry_delivery", timer_key=timer_key))


async def retry_deliveries(session: Session, timer_keys: Sequence[int]) -> list[int]:
    """Make the next attempts of many deliveries due now; return the keys of the deliveries that were not due before.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/deliveries/retry_deliveries.sql
    """
    return [row[0] for row in await session.call("retry_deliveries", timer_keys=timer_keys)]
