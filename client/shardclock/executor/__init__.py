"""The process that imports an app and calls its functions: the executor of a handler, or of runs.

This package is private: a user's code imports nothing from this package. A worker starts the process, and calls it over
a socket. The process loads only this distribution, never the server, so the process stays small, and a user's module
can't collide with a module of the server.

    handlers        calls of one handler
    runs            runs of an app's jobs, one at a time
    threads         the threads for calls of plain functions
    importing       the search path of the process, with `niceness`, its share of the processors
    frames          the messages of the socket; the worker uses this module, too
    call_server     the executor's end of the socket
    actors          the classes that a worker passes to Ray, in a process that Ray starts
    parent          the end of a process that the worker starts itself; its program is `__main__`
    describe        a program that prints the handlers and jobs of an app
"""
