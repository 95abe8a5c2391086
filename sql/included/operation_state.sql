-- Selects the state of the operation `o` as readers see it: INTERRUPTED if no process has changed a page in time.
case
    -- A time after the longest pause was written before the clock was set back.
    when o.state = 'RUNNING' and (o.due_at < now() - interval '30 seconds' or o.due_at > now() + interval '1 hour')
        then 'INTERRUPTED'
    else o.state
end
