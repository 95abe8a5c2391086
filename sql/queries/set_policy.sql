-- Lets the leading coordinator follow the forecast between two numbers of shards; what is not given stays.
--
-- in:    $1 shards_min integer or null, $2 shards_max integer or null, $3 target_per_s integer or null
-- out:   one row: shards_wanted integer, shards_min integer and shards_max integer (nulls: no policy),
--        target_per_s integer
-- locks: the coordination row
-- index: coordination_pkey
update shardclock.coordination c
set shards_min = coalesce($1::integer, c.shards_min),
    shards_max = coalesce($2::integer, c.shards_max),
    target_per_s = coalesce($3::integer, c.target_per_s),
    shards_wanted = least(
        greatest(c.shards_wanted, coalesce($1::integer, c.shards_min)), coalesce($2::integer, c.shards_max)
    )
where c.singleton
returning c.shards_wanted, c.shards_min, c.shards_max, c.target_per_s
