"""The HTTP server: authentication, limits, and the routes that it serves."""
