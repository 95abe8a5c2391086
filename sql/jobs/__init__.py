"""Jobs: their definitions, the statements that begin and end a run, and what became of the last runs.

jobs      look at jobs, and change what they do
declare   what an app declares
apply     what a file describes
runs      begin a run and end it
history   the last runs
"""
