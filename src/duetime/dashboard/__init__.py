"""The dashboard: web pages that also work without JavaScript. Their data comes from the scheduler."""
