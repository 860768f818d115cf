"""Prompts: instructions that wake an agent."""
