"""QStash as the keeper of notifications: they fire while this machine is off."""
