"""Kinds of runs: jobs call functions, prompts wake agents, notifications reach people, requests call HTTP services."""
