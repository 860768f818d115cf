"""Outgoing HTTP: client, URL parsing, name lookups, SSRF guard, limits per host, and outcomes of calls."""
