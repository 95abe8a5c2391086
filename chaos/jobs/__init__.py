"""Inject faults while an app's jobs run, and judge the promises about jobs.

app the jobs, which record their runs in a file that no part of the product touches running one run: the cluster, the
faults, and the queries at the end record the recording of a run promises the checks, which read the recording alone
"""
