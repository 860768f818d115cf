"""Agents that a prompt can wake: a command, the built-in agent, a webhook. Other prompts wait in the inbox."""
