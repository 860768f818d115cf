"""How a message reaches a person or a program: ntfy, channels, guarded HTTP, QStash."""
