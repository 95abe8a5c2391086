"""Events for operators, and the endpoints that subscribe to them.

Most events are written by triggers, in the transaction that changes the row. The leading coordinator converts events to
deliveries to endpoints. The coordinator also writes the events that no row change shows, for example a high lag.

events         write observed events, and convert all events to deliveries
subscriptions  add, find and remove the subscriptions of endpoints
"""
