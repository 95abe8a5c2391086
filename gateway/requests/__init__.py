"""What requests and answers have in common.

callers      whose request this is, and whether it may
problems     what is answered when something is not done
bodies       read a body, bounded
asked        what several routes are asked alike
paths        keys and names in paths
queries      what is not known in a query is refused
idempotency  a request that is sent again does nothing twice
recording    what operators do is recorded in the audit
wait         for how long a caller wants to wait
listing      answers that may be long
"""
