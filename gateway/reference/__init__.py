"""The reference of the API, made from its routes.

openapi     OpenAPI, for programs
examples    examples of responses, made from the examples of fields
refusals    the problems that an operation may answer
page        the reference as a page of HTML, made of its `page_parts`
"""
