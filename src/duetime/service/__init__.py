"""The service layer that all interfaces share. Every interface works through the scheduler."""
