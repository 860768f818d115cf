"""The HTTP door: who may come in, and what is served behind it."""
