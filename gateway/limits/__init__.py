"""Limit concurrent requests, and the usage of each tenant.

quotas       the limits of each tenant at one gateway: writes, lines, waiting callers, endpoints
refused_quotas  refusals by quotas for which no event is written yet
timer_quotas the quotas of pending timers, schedules and payload bytes, checked for each new timer
usage        one tenant's usage: the last count in Postgres, and the writes of one gateway since
rates        writes per second
concurrency  a limit of concurrent callers, with a share for each tenant
wait_limits  the limits of callers that hold a connection while they wait
body_budget  a limit of the bytes of large bodies in memory; later bodies wait
unsent       a limit of the response bytes that clients have not read
work_thread  a thread for models and previews: one computation at a time, round robin over tenants
"""
