"""The operations that every interface offers. Each has a request class, which declares its arguments, and a function,
which returns an `Answer`. The interfaces build tools, routes and options from the requests, and show the answers."""
