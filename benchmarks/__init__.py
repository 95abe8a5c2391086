"""Measure the promises: `python -m benchmarks --help`.

There are two kinds of benchmarks. A *case* (`cases/`) measures several *contenders* one after the other on the same
Postgres. The contenders (`contenders/`) are a cluster on Ray, its limits (our SQL alone), and the peers (other job
queues, with workers in `peers/`). `results` keeps the figures, `page` and `bars` write docs/benchmarks from them. A
*scenario* (`scenarios`, `operating`, `sizing`, `parts`) measures one property of one Shardclock cluster, and prints
JSON. Scenarios are for planners and operators of clusters.

All clusters are real, on a Postgres in a temporary directory, and all figures are read from recorded rows. Machines
differ and are noisy: compare ratios within one run, and run nothing else at the same time.
"""
