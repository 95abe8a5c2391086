"""Import an app and call its functions: the executor process of a handler or of job runs.

User code must not import this private package. A worker starts the process, and calls the process over a socket. The
process imports only the client distribution, not the server. The process therefore stays small, and the names of a
user's modules can't collide with the names of server modules.

    handlers:         calls of one handler
    concurrent_calls: the calls of an async handler for the timers of one message
    runs:             runs of an app's jobs, one at a time
    threads:          the threads for calls of plain functions
    importing:        the search path of the process, with `niceness`, its share of the processors
    frames:           the messages of the socket, for the executor and the worker
    call_server:      the executor's side of the socket
    actors:           the classes that a worker passes to Ray, in a process that Ray starts
    parent:           ends an executor that the worker starts as its own child process; the program of this process is
                      `__main__`
    describe:         a program that prints the handlers and jobs of an app
"""
