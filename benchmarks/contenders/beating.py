"""An app with one job that does nothing; the benchmarks copy the app into a separate folder, and add equal jobs."""

import shardclock


@shardclock.job("beat", every="P1D")
def beat(run: shardclock.Run) -> None:
    """End immediately."""
