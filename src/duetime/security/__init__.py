"""Tokens, their claims and revocations, signatures of webhooks, credentials to redact, and private files."""
