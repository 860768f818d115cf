"""The commands that every kind of schedule has: create, list, show, edit, pause, cancel."""
