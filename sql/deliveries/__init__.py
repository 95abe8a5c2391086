"""Deliveries: fired timers with a target to call. Workers claim deliveries, and record how each attempt ended.

claim         claim due deliveries, and renew their leases
settle record the ends of attempts
find, verbs   list the deliveries on their way, cancel one, or make next attempts due now
dead_letters  given-up deliveries: list, redrive, discard
handlers      the declarations of an app
unserved      handlers and jobs with waiting deliveries that no worker has
targets       all targets that timers may name
notifications         notify workers of new deliveries
"""
