"""Wait until a condition is true, with a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_S = 0.01


async def eventually(condition: Callable[[], bool | Awaitable[bool]], *, within_s: float = 30.0) -> None:
    """Return as soon as a condition is true.

    errors: AssertionError the condition was not true in time
    """
    deadline = time.monotonic() + within_s
    while True:
        looked_at = time.monotonic()
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {condition}"
        # The processes under test need processor time, too, so the checks use at most half of the time.
        await asyncio.sleep(max(POLL_S, time.monotonic() - looked_at))
