"""Limit concurrent requests, and the usage of each tenant.

quotas       the limits of each tenant at one gateway: writes, lines, waiting callers, endpoints
refused_quotas  refusals by quotas whose events are not yet written
timer_quotas the quotas of pending timers, schedules and payload bytes, checked for each new timer
usage        one tenant's usage, as one gateway knows it
rates        writes per second
concurrency  a limit of concurrent callers, with a share for each tenant
wait_limits  the limits of callers that hold a connection while they wait
body_budget  a limit of the bytes of large bodies in memory; later bodies wait
unsent       a limit of the response bytes that clients have not read
work_thread  a thread for models and previews: one computation at a time, round robin over tenants
"""
