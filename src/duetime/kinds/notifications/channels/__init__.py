"""Channels: an ntfy server, and named channels that use an Apprise URL or one plain HTTP request."""
