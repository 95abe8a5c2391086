"""Jobs: definitions, statements that begin and end runs, and the history of the last runs.

jobs      read jobs, and change them
declare   declare an app's jobs
apply     apply the jobs of a file
runs      begin and end runs
history   the last runs
"""
