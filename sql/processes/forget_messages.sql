-- Deletes messages after the end of their time to live.
--
-- in:    :batch integer
-- out:   message_key bigint, of each deleted message
-- locks: the rows that it deletes; skips locked rows
-- index: messages_by_age
delete from shardclock.messages m
where m.message_key = any (
    array(
        select m.message_key
        from shardclock.messages m
        where m.expires_at <= now()
        order by m.expires_at
        limit :batch::integer
        for update skip locked
    )
)
returning m.message_key
