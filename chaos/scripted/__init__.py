"""Write histories by hand, to test the checker.

run, instance    the steps of a history: `run` for timers and deliveries, `instance` for process instances
good_run         a valid run with many events
*_violations     changes of the valid run, each of which breaks a promise, with the expected words of the report
"""
