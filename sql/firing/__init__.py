"""A shard's statements that end or change leased timers: fire them, compute first due dates, pause faulty timers."""
