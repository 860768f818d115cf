"""Requests: HTTP calls, sent through the QStash-compatible API."""
