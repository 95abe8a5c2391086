"""Inject faults while an app's jobs run, and judge the promises about jobs.

- `app` has the jobs, which record their runs in a file without the product.
- `running` executes one run: it starts the cluster, injects the faults, and reads the tables at the end.
- `record` is the recording of a run.
- `promises` has the checks, which use only the recording.
"""
