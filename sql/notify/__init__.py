"""Events for operators, and the endpoints that subscribe to them.

A trigger on the row that makes an event true writes the event, in the same transaction. The leading coordinator makes
deliveries to endpoints of the events, and also notes the events that only an observation shows.

events         notes observed events, and makes deliveries of all events
subscriptions  adds, finds and removes the subscriptions of endpoints
"""
