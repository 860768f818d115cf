"""How a prompt reaches an agent: a command, the built-in one, a webhook. What wakes nobody waits in the inbox."""
