"""An app with one job that does nothing, of which the benchmarks make many; they copy it into a folder of its own."""

import shardclock


@shardclock.job("beat", every="P1D")
def beat(run: shardclock.Run) -> None:
    """End at once."""
