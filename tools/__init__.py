"""Programs that write generated files, run by `make docs`; tests hold that each file is as its program writes it.

sql_reference  docs/sql.md, from the comments of the SQL functions
openapi        docs/openapi.json, from the routes of the HTTP API
bpmn_page      docs/bpmn-elements.md, from the models of tests/engine/models
unasync        the clients without an event loop, from the ones that have one
"""
