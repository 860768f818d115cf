"""From settings to parts: each file builds one group of what compose puts together."""
