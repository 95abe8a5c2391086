-- Selects the state of the operation `o` for readers: INTERRUPTED if no process has changed a page in time.
case
    -- A time beyond the longest pause is from before the clock was set back.
    when o.state = 'RUNNING' and (o.due_at < now() - interval '30 seconds' or o.due_at > now() + interval '1 hour')
        then 'INTERRUPTED'
    else o.state
end
