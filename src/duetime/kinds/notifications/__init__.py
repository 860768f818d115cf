"""Notifications: messages to a person."""
