"""The code that shards, workers and engines share.

A slot keeper is a process that works on a part of the slots. It registers as a holder, sends heartbeats, works on its
slots in loops, and releases all leases at a drain. Shards, workers and engines are keepers. A keeper has components,
each with its own state and loops: a shard or an engine has one component, a worker has four.

    keeper     the keeper and its components: run the loops, stop the loops, release the leases
    clock      an estimate of Postgres's time, from the answers to other statements
    registration  the tasks that all keepers have in common: heartbeats, loops, connections, release of the leases
    settings   the settings of each keeper
    heartbeat  the heartbeats, and the assignment in their answers
    loops      run iterations until the keeper must stop, with a growing pause after each failure
    hand_over_socket  the socket over which a shard hands deliveries over to a worker
    places     the number of deliveries that a worker accepts over this socket (pure)
    unconfirmed  the deliveries that a worker has not confirmed; a shard sends them again over the next connection
                 (pure)
    life       start, watch and drain the keeper of one process; exit the process after a failure
    collector  run the garbage collector rarely, and never over the objects that exist at the process start
"""
