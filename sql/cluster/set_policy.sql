-- Lets the leading coordinator follow the forecast between two numbers of shards; a null leaves a value as it is.
--
-- in:    :shards_min integer or null, :shards_max integer or null, :target_per_s integer or null
-- out:   one row: shards_wanted integer, shards_min integer and shards_max integer (nulls: no policy),
--        target_per_s integer
-- locks: the coordination row
-- index: coordination_pkey
update shardclock.coordination c
set shards_min = coalesce(:shards_min::integer, c.shards_min),
    shards_max = coalesce(:shards_max::integer, c.shards_max),
    target_per_s = coalesce(:target_per_s::integer, c.target_per_s),
    shards_wanted = least(
        greatest(c.shards_wanted, coalesce(:shards_min::integer, c.shards_min)),
        coalesce(:shards_max::integer, c.shards_max)
    )
where c.singleton
returning c.shards_wanted, c.shards_min, c.shards_max, c.target_per_s
