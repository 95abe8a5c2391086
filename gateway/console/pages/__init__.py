"""The console's pages, one module for each family.

overview  the first page
timers    the list of timers, and changes of all timers that match a filter
one_timer, new_timer   one timer with its story and its verbs; the forms for a timer and a schedule
schedules              the list of schedules
processes, instances   processes with their drawing, and instances with their tokens, waits and verbs
deliveries, dead_letters   lists and single pages, with their verbs
endpoints                  webhooks' receivers: settings, secrets, failing deliveries, a test
subscriptions              the events for operators that an endpoint gets
jobs                       jobs, and one run with its log; run_strip draws the last runs
cluster                    keepers, their numbers, the ramp and the hold
tenants                    limits and usage of tenants, and the list of keys
operations                 changes of many rows, with their progress
audit, log                 the acts of operators; the records of timers
tasks                      people's tasks; task_results reads the variables of a completion
listing, excerpts          values that all lists share; shortened texts
"""
