"""Deliveries: what fired and has a target to call. Workers claim them, and settle how each attempt ended.

claim         claim those that are due, and renew their leases
settle        record how attempts ended
find, verbs   look at those on their way, cancel one, or make next attempts due now
dead_letters  those that were given up: list, redrive, discard
handlers      what an app declares
targets       all that timers may name
hints         tell workers that there are new ones
"""
