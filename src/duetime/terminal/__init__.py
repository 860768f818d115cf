"""Modules that all commands share: settings, output, questions and error messages."""
