"""The console's pages, one module for each family.

overview  the first page
timers    the list of timers, and changes of all timers that match a filter
one_timer, new_timer   one timer, its explanation, and the forms that change it; the forms for a new timer or schedule
schedules              the list of schedules
processes, instances   processes with their drawing; instances, with their tokens, their waits and the forms
deliveries, dead_letters   lists and single rows, with the forms that change them
endpoints                  endpoints: settings, secrets, failing deliveries, a test webhook
subscriptions              the events for operators that an endpoint gets
jobs                       jobs, and one run with its log; run_strip draws the last runs
cluster                    the keepers, their wanted numbers, the ramp and the hold
tenants                    limits and usage of tenants, and the list of keys
operations                 changes of many rows, with their progress
audit, log                 the changes by operators; the records of timers
tasks                      user tasks; task_results reads the variables of a completed task
listing, excerpts          values that all lists share; shortened texts
"""
