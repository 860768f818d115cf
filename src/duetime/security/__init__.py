"""Tokens, their claims and revocations, credentials to redact, and files that only their owner may read."""
