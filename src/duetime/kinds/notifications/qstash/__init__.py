"""QStash as the backend of notifications, which fires them even while this machine is off."""
