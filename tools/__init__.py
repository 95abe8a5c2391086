"""Programs that generate files in `make docs`; tests compare each file with the output of its program.

`wheels` builds the distributions, for `make wheels`.

sql_reference  docs/sql.md, from the comments of the SQL functions
openapi        docs/openapi.json, from the routes of the HTTP API
bpmn_page      docs/bpmn-elements.md, from the models in tests/engine/models
unasync        the synchronous clients, from the async clients
"""
