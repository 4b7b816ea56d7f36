"""The client's state, without sockets, threads and waiting: what was asked, what is in flight, what must be said next.

Its caller makes one call at a time. Time comes from a `Clock`; bytes go in and out of `ConnectionCore`.
"""
