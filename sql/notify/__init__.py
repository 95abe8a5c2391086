"""Events for operators, and the endpoints that subscribe to them.

Triggers write most events, in the transaction that changes a row. The leading coordinator converts events to deliveries
to endpoints. It also writes the events that no changed row causes, for example the event of a high lag.

events         write observed events, and convert all events to deliveries
subscriptions  add, find and remove the subscriptions of endpoints
"""
