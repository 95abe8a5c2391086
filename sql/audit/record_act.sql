-- Appends a record of what an operator did, with the role that this session logged in as.
--
-- in:    :interface text (api or cli), :key_prefix text or null, :key_name text or null, :tenant_id text or null: for
--        the whole installation, :verb text, :what jsonb (an object), :outcome text (done, not done or failed), :address
--        text or null: as Postgres sees it
-- out:   act_id bigint
-- locks: the new row, and up to 100 rows that are older than 400 days, which are deleted
-- index: audit_by_age, for these
select shardclock.record_act(
    :interface, :key_prefix, :key_name, :tenant_id, :verb, :what::jsonb, :outcome, :address
) as act_id
