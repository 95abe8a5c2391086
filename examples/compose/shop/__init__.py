"""A shop, as an example of an app."""
