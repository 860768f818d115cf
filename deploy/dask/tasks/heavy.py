"""Tasks that run on the cluster. Put your own modules beside this one, and name them in DUETIME_TASKS."""

import socket

from duetime import task


@task(runs_on="cluster")
def sums(numbers: int) -> str:
    """Add up the first numbers, and say which machine did."""
    return f"{socket.gethostname()}: {sum(range(numbers))}"
