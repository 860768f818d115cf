"""Channels that the operator named: an address of the many that Apprise knows, or one plain HTTP request."""
