"""QStash as the backend of notifications, which fires them even while this machine is off."""

from __future__ import annotations

PLACE = "QStash"
