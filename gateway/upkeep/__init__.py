"""Background tasks of a gateway.

stats      count requests and their durations, and report them
measuring  measure the event loop's lag, and count API keys that expire soon
noting     write events about refused quotas
notifying  notify engines of signals, and shards of timers that are due immediately
operations  continue changes of many rows
retention  delete old responses of idempotent requests, old sessions and old operations
"""
