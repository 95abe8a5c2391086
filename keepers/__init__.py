"""The parts that every slot keeper shares.

A slot keeper is a process that registers as a holder, sends heartbeats, gets a range of slots, works on these slots in
loops, and releases all leases at a drain. Shards, workers and engines are keepers. A keeper has parts with their own
state and loops: a shard or an engine has one part, a worker four.

    keeper     the keeper and its parts: run the loops, stop the loops, release the leases
    clock      an estimate of Postgres's time, from the answers to other statements
    registration  the tasks of every keeper apart from its work: heartbeats, loops, connections, handing back
    settings   the settings of each keeper
    heartbeat  the heartbeats, and the assignment in their answers
    loops      make turns until the keeper must stop, with a growing pause after each failure
    hand_over  the socket over which a shard hands deliveries over to a worker
    places     the number of deliveries that a worker takes over this socket (pure)
    unconfirmed  the deliveries that a worker has not confirmed, which are sent again over the next connection (pure)
    life       start, watch and drain the keeper of one process; end the process after a failure
    collector  run the garbage collector rarely, and never over the objects from the start
"""
