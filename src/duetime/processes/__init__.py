"""What the supervisors of child processes share."""
