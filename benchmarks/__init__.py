"""The numbers that DESIGN promises, measured: `python -m benchmarks --help`.

Each scenario runs a real cluster on an embedded Postgres in a temporary directory and reads its figures from recorded
rows. Machines differ and are noisy: compare ratios within one run, and run nothing else beside it.
"""
