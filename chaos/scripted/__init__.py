"""Write histories by hand, to test the checker.

- `run` has the steps of a history about timers and deliveries.
- `instance` has the steps of a history about process instances.
- `good_run` is a valid run with many events.
- The `*_violations` modules change the valid run, so that each change breaks a promise.
"""
