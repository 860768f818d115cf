"""The scorecard: what the promises come to when real processes, disks and clients misbehave. Run `make scorecard`.

Each line of the table is one module with one function, `measure(scale, tell)`; `scorecard/lines.py` lists them.
"""
