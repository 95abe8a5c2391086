"""API keys, which identify the HTTP API's callers, and the console's sessions.

keys      operators make and revoke keys, and the gateway reads them
sessions  the gateway makes and ends sessions; each one stands for a key
"""
