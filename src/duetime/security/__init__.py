"""Tokens, their claims and revocations, and files that only their owner may read."""
