"""List the functions of other engines that are not supported, each with the message of its refusal.

source:  the functions of Camunda 8 (feel-scala 1.20) and of DMN 1.5 that `FUNCTIONS` lacks
"""

SAME_AGAIN = "the second evaluation of an expression must give the same value; let a task or the caller set a variable"
UNSUPPORTED = {
    "random number": f"random number() is not supported: {SAME_AGAIN}",
    "uuid": f"uuid() is not supported: {SAME_AGAIN}",
    "fromAi": "fromAi() is not supported, because the engine calls no language model; write the value itself",
    "to base64": "to base64() is not supported; let a task or the caller encode the text",
    "from json": "from json() is not supported; pass the JSON as a variable, and read its parts by their names",
    "to json": "to json() is not supported; return the value itself, which becomes JSON",
    "put": "put() is not supported; write context put(…)",
    "put all": "put all() is not supported; write context merge([…])",
    "range": "range() is not supported; write the range itself, as in [1..10]",
}
