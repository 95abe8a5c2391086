-- Returns the webhook body of an operator event; chat tools display its field `text`.
--
-- The event's sentence may contain text of a third party, such as a receiver's response. Characters that begin a link,
-- or that mention a person or a channel, are replaced by similar characters.
--
-- in:    event jsonb, others integer, text_only boolean
-- out:   jsonb
-- locks: nothing
-- index: none
create or replace function shardclock.body_of_event(event jsonb, others integer, text_only boolean)
returns jsonb
language sql
stable
begin atomic
    select case
        when text_only then jsonb_build_object('text', t.text)
        else jsonb_build_object(
            'type', event ->> 'kind',
            'timestamp', to_char(
                (event ->> 'happened_at')::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
            ),
            'text', t.text,
            'data', (event -> 'detail') || jsonb_build_object(
                'tenant_id', event -> 'tenant_id', 'subject', event -> 'subject', 'others', others
            )
        )
    end
    from (
        select
            translate(left(regexp_replace(event ->> 'sentence', '[[:cntrl:]]+', ' ', 'g'), 1000), '<>@', '‹›＠')
            || case when others > 0 then format(' (and %s more)', others) else '' end
            || case event ->> 'tenant_id'
                when 'default' then ''
                else format(' [tenant %s]', translate(event ->> 'tenant_id', '<>@', '‹›＠'))
            end as text
    ) t;
end;

comment on function shardclock.body_of_event is
    'Internal: Returns the webhook body for an event; `others` is the number of other events since the last delivery.';
