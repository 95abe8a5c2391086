-- Reads the last operator's hold that was in force between two moments.
--
-- in:    :since timestamptz, :until timestamptz
-- out:   one row or none: why text, began_at timestamptz, ended_at timestamptz or null (the hold is still in force)
-- locks: nothing
-- index: identity_pkey
select h.why, h.began_at, h.ended_at
from shardclock.identity i
cross join lateral jsonb_to_recordset(i.holds) as h (why text, began_at timestamptz, ended_at timestamptz)
where i.singleton and h.began_at <= :until::timestamptz and coalesce(h.ended_at, 'infinity') >= :since::timestamptz
order by h.began_at desc
limit 1
