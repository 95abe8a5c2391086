"""What can be asked for.

creating   the hot route: one timer
timers     look at timers, and change one
changing   how one is changed
lines      many timers: a line of JSON for each
bulk       one verb for all timers that a filter finds
schedules  look ahead: what a rule will do
log        read the log, by pages or as it grows
consumers  groups that read it, each record at least once
targets, deliveries, dead_letters, endpoints, jobs   what firings do
processes, instances, messages, tasks, service_tasks, incidents   deployed models, and what goes on in them
cluster, tenants, audit   the cluster, its tenants, and who did what, as an operator sees them
health     whether the gateway works
doing      do what is asked for once, for each idempotency key
task_states   say what has become of a task
waiting    look again for a caller that waits
"""
