-- Who redrives or discards many dead letters begins with those that were given up first, 10,000 at a time. Without this index
-- each page would sort all that there are.
create index dead_letters_in_order on shardclock.dead_letters (died_at, (timer_key + 0));
