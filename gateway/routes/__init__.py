"""The endpoints of the API.

creating   create one timer: the hot route
timers     show and change timers
finding    find timers by a filter
changing   change one timer
lines      create many timers: one line of JSON for each
bulk       change all timers that match a filter
schedules  preview the occurrences of a schedule
log        read the log, by pages or as a stream
consumers  groups that read the log, each record at least once
targets, deliveries, dead_letters, endpoints, jobs   the targets of timers, and their calls
notify   the endpoints that get events for operators
processes, instances, instance_changes, messages, tasks, service_tasks, incidents   deployed models and their instances
operations  changes of many rows, with their progress
cluster, tenants, audit   the cluster, its tenants, and the audit, for operators
health     the health of the gateway
idempotent  make a change once for each idempotency key
task_states   the response with the state of a task after a change
"""
