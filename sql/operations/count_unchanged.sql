-- Counts the rows that an operation could not change, by reason; the caller has just tried to change these rows.
--
-- in:    :verb text, :keys bigint[]: keys of timers; for `processes resolve`, keys of instances
-- out:   reason text (the code of a refusal, or nothing_to_change), rows bigint
-- locks: nothing
-- index: timers_pkey, dead_letters_pkey, deliveries_pkey, one probe for each key
select u.reason, count(*) as rows
from (
    select case
        when :verb::text = 'processes resolve' then 'unknown_incident'
        when :verb in ('dead-letters redrive', 'dead-letters discard') then coalesce(
            (
                select case when :verb = 'dead-letters redrive' then 'not_redriven' else 'dead_letter_awaited' end
                from shardclock.dead_letters d
                where d.timer_key = k.key
            ),
            'unknown_dead_letter'
        )
        when :verb = 'deliveries retry' then coalesce(
            (
                select case
                    when l.claimed_until > clock_timestamp() or l.next_attempt_at > clock_timestamp()
                        then 'delivery_claimed'
                    else 'nothing_to_change'
                end
                from shardclock.deliveries l
                where l.timer_key = k.key
            ),
            (select 'delivery_dead' from shardclock.dead_letters d where d.timer_key = k.key),
            'delivery_ended'
        )
        else coalesce(
            (
                select case
                    when :verb = 'reschedule' and t.anchor_occurrence is null then 'timer_unplanned'
                    else 'nothing_to_change'
                end
                from shardclock.timers t
                where t.timer_key = k.key
            ),
            'timer_ended'
        )
    end as reason
    from unnest(:keys::bigint[]) as k (key)
) u
group by u.reason
