"""An app with one job that does nothing; the benchmarks add many jobs like it, and copy the app into its own folder."""

import shardclock


@shardclock.job("beat", every="P1D")
def beat(run: shardclock.Run) -> None:
    """End immediately."""
