"""What a gateway does beside requests.

stats      count requests, and how long they took, and report it
watching   what no request tells: whether the loop stands still, which keys expire
hinting    tell engines of signals, and shards of timers that are due at once
forgetting forget answers that were kept for requests that might be sent again
"""
