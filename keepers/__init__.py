"""What keeps slots has this in common, whatever it does with them.

A slot keeper is an actor that registers as a holder, gives signs of life, is assigned a part of the slots, works on
them in loops, and hands everything back when it is asked to go. Shards are the keepers there are. These are pieces to
compose, not a class to inherit:

    clock      Postgres's time, known from the round trips that are made anyway
    heartbeat  the signs of life, and the assignment that they bring back
    loops      turns taken again and again until the keeper is to stop; one that fails is retried, ever more rarely
    life       the Ray actor's side: start, watch, drain; leave the process when the work has failed
"""
