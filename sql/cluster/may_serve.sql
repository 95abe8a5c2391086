-- Reads whether the current role has the rights of a gateway. Only gateways and the owner may write the table
-- idempotent_requests, so the statement checks this right.
--
-- in:    nothing
-- out:   role text: the current role
--        may boolean: null if the schema or the table is missing
--        has_group boolean: whether `shardclock migrate --roles` has made the role shardclock_gateway
-- locks: nothing
-- index: Postgres's own catalogs
select
    current_user::text as role,
    has_schema_privilege(to_regnamespace('shardclock'), 'usage')
        and has_table_privilege(to_regclass('shardclock.idempotent_requests'), 'insert') as may,
    to_regrole('shardclock_gateway') is not null as has_group
