"""The timeline page and its charts."""
