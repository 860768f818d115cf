"""How others meet Duetime. Words only: every face goes through the scheduler."""
