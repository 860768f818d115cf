"""The scheduling engine: values and decisions. Nothing here does I/O or imports another package of Duetime."""
