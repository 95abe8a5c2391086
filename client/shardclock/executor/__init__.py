"""The process that imports an app and calls its functions: the executor of a handler, or of runs.

Private: a user's code imports nothing of it. A worker starts one process for each place, and calls it over a socket.
Only this distribution is loaded there, never the server: a process of the user's code stays small, and a module of the
user can't collide with a module of the server.

    handlers        calls of one handler
    runs            runs of an app's jobs, one at a time
    threads         the threads in which plain functions are called
    importing       the search path of the process, with `niceness`, its share of the processors

    frames          the messages of the socket: both ends, the worker's too, cut and write them here
    call_server     the executor's end of the socket
    actors          the classes that a worker gives to Ray, in a process that Ray starts
    parent          how a process that the worker starts itself ends with it; its program is `__main__`

    describe        a program that prints which handlers and jobs an app declares
"""
