"""The numbers that DESIGN promises, measured: `python -m benchmarks --help`.

There are two kinds. *Cases* (`cases/`) are run by several *contenders* (`contenders/`: a cluster on Ray, its limit, the
peers, whose workers are in `peers/`), one after the other on the same Postgres; `results` keeps their figures, `page`
and `bars` tell them under docs/benchmarks. *Scenarios* (`scenarios`, `operating`, `sizing`) ask one cluster of ours
about one thing, for those who size or operate it, and print JSON.

All are real clusters on a Postgres in a temporary directory, and figures are read from recorded rows. Machines differ
and are noisy: compare ratios within one run, and run nothing else beside it.
"""
