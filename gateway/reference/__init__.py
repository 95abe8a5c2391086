"""The reference of the API, made of its routes.

openapi     OpenAPI, for programs
examples    what a body may be
refusals    which problems an operation may answer
page        the same for people, of its `page_parts`
"""
