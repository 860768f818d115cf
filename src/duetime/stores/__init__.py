"""Where schedules and runs are kept: one flow of transactions, two mechanisms that carry it out."""
