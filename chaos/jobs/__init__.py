"""Break everything while an app's jobs run, and say whether their promises held.

app         the jobs: they write down how each run goes, in a file that no part of the product touches
running     one run: the cluster, the faults, and what is read at the end
record      what a run has recorded
promises    the promises, one check each, from the record alone
"""
