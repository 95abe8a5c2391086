-- Reads where the readable part of the command log ends now.
--
-- in:    nothing
-- out:   xid text: every record that is readable later and not now has this one or a higher
-- locks: nothing
-- index: none
select pg_snapshot_xmin(pg_current_snapshot())::text as xid
