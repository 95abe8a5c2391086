"""A clock that a test moves: set it, find the next due row, and begin runs of jobs with few plan nodes.

moved  set the clock, and go to the next due row
begin  begin runs of jobs
"""
