"""Commands that move data: import, export, backup and the database itself."""
