"""Measure the performance of Shardclock: `python -m benchmarks --help`.

There are two kinds of benchmarks. A *case* (`cases/`) measures several *contenders* one after the other on the same
Postgres. There are three kinds of contenders (`contenders/`): a cluster on Ray, upper limits (only the SQL statements
of a cluster), and the *peers* (other job queues, with workers in `peers/`). `results` stores the figures; `page` and
`bars` write docs/benchmarks from the figures. A *scenario* (`scenarios`, `operating`, `sizing`, `parts`) measures one
property of one Shardclock cluster, and prints JSON. Scenarios help to plan and operate clusters.

All clusters run on a real Postgres in a temporary directory, and the figures are computed from rows that the clusters
wrote. Figures differ between machines and runs. So compare only ratios within one run, and run no other program at the
same time.
"""
