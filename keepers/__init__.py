"""The parts that every slot keeper shares.

A slot keeper is a process that registers as a holder, gives signs of life, is assigned a part of the slots, works on
them in loops, and hands everything back when it is asked to go. Shards, workers and engines are keepers. A keeper is
composed of parts, each with its own state and loops: a shard and an engine are one part, a worker has three.

    keeper     the keeper and its parts: run the loops, stop them, hand back
    clock      an estimate of Postgres's time, from the answers that the keeper gets anyway
    registration  what each has beside its work: signs of life, loops, connections, and the way to hand back
    settings   what each is told
    heartbeat  the signs of life, and the assignment that they bring back
    loops      takes turns until the keeper must stop; after a turn that fails it waits, longer after each failure
    life       its process's side: start, watch, drain; end the process when the work has failed
    collector  the garbage collector looks seldom, and never at what was there at the start
"""
