"""The rules of the house: pure values and decisions. Nothing here does I/O or imports another room of ours."""
