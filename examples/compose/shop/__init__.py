"""An example of an app: a shop."""
