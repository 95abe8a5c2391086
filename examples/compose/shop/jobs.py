"""The handlers and jobs of a shop."""

import shardclock


@shardclock.on_timer("order.expired")
async def expire(timer: shardclock.Timer) -> None:
    """Log that an order expires."""
    print(f"order {timer.payload['order']} expires, attempt {timer.attempt}", flush=True)


@shardclock.job(every="PT15M", max_runtime="PT5M")
def refresh(run: shardclock.Run) -> None:
    """Report half of the work."""
    run.progress(0.5, "half of it")
