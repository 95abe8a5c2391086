-- Measures the size of the write-ahead log on disk; only members of pg_monitor have this right.
--
-- in:    nothing
-- out:   kept_bytes bigint
-- locks: nothing
-- index: none, it lists a directory
select coalesce(sum(w.size), 0)::bigint as kept_bytes
from pg_ls_waldir() w
