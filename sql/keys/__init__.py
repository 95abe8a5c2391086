"""The API keys that identify callers of the HTTP API, and the sessions of the console.

keys      operators make and revoke keys, and the gateway reads them
sessions  the gateway begins and ends sessions, for a person or an API key
"""
