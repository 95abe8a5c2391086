"""Deliveries: calls of a handler or an endpoint, for timers that have fired.

Workers claim deliveries, and record how each attempt ended.

claim         claim due deliveries, and renew their leases
settle record the outcomes of attempts
find, verbs   list open deliveries, cancel one, or make next attempts due now
dead_letters  given-up deliveries: list, redrive, discard
handlers      the handlers that an app declares
failing       handlers with failing deliveries
unserved      handlers and jobs that have waiting deliveries but no running worker
targets       all targets that timers may name
notifications         notify workers of new deliveries
"""
