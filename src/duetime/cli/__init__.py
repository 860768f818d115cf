"""The `duetime` command. Nothing slow is imported before a command needs it."""
