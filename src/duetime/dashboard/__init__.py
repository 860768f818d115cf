"""The dashboard: pages for a browser, which work without a script too. What they show comes from the scheduler."""
