"""Jobs: definitions, statements that begin and end runs, and the history of the last runs.

jobs      read jobs, and change them
declare   declare an app's jobs
apply     apply the jobs of a file
runs      begin a run and end it
history   the last runs
"""
