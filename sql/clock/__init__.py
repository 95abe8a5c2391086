"""A clock that a test moves: set the clock, find the next due row, and begin runs of jobs with a fast statement.

moved  set the clock, and find the next due row
begin  begin runs of jobs
"""
