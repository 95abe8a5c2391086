-- Selects the state of the operation `o`. The state is INTERRUPTED if a page is overdue by more than 30 s: no process
-- has changed the operation's next page.
case
    -- A due_at later than the longest pause was written before the clock was set back.
    when o.state = 'RUNNING' and (o.due_at < now() - interval '30 seconds' or o.due_at > now() + interval '1 hour')
        then 'INTERRUPTED'
    else o.state
end
