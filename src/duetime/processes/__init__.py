"""Code shared by the supervisors of child processes."""
