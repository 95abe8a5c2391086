"""The database's clock in a test, which only the test moves.

moved  set the clock, and find the next due row
begin  begin runs of jobs
"""
