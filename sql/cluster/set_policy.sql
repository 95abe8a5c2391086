-- Sets a role's policy: two bounds between which the number of keepers follows the forecast.
--
-- in:    :role text, :wanted_min integer, :wanted_max integer and :target_per_s integer, or null (the value does not
--          change)
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
