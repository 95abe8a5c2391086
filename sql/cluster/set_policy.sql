-- Lets the leading coordinator follow the forecast between two numbers of keepers; a null leaves a value as it is.
--
-- in:    :role text, :wanted_min integer or null, :wanted_max integer or null, :target_per_s integer or null
-- out:   one row: wanted integer, wanted_min integer and wanted_max integer (nulls: no policy), target_per_s integer
-- locks: the role's row
-- index: scale_pkey
update shardclock.scale s
set wanted_min = coalesce(:wanted_min::integer, s.wanted_min),
    wanted_max = coalesce(:wanted_max::integer, s.wanted_max),
    target_per_s = coalesce(:target_per_s::integer, s.target_per_s),
    wanted = least(
        greatest(s.wanted, coalesce(:wanted_min::integer, s.wanted_min)),
        coalesce(:wanted_max::integer, s.wanted_max)
    )
where s.role = :role
returning s.wanted, s.wanted_min, s.wanted_max, s.target_per_s
