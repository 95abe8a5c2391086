-- Selects the state of the operation `o`; the state is INTERRUPTED if no process has changed its next page within the
-- time limit.
case
    -- A due_at later than the longest pause was written before the clock was set back.
    when o.state = 'RUNNING' and (o.due_at < now() - interval '30 seconds' or o.due_at > now() + interval '1 hour')
        then 'INTERRUPTED'
    else o.state
end
