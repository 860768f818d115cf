"""The endpoint at which the server proves that it reads the store: see `probe`. It reveals nothing else."""

from __future__ import annotations

import re
from typing import Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from duetime.engine.errors import DuetimeError
from duetime.engine.store import Store
from duetime.http.probe import PROOF, SERVICE, proof_of
from duetime.service.published import read_publication

_NONCE: Final = re.compile(r"[0-9a-f]{32}")


def identity(store: Store) -> Route:
    async def answer(request: Request) -> Response:
        nonce = request.query_params.get("nonce", "")
        if not _NONCE.fullmatch(nonce):
            return JSONResponse({"error": "nonce: must be 32 hexadecimal digits"}, 400)
        try:  # read each time: another server on this store may have published a new key
            found = read_publication(await anyio.to_thread.run_sync(store.published))
        except DuetimeError:
            return JSONResponse({"error": "The store cannot be reached right now."}, 503)
        if found is None or not found.key:
            return JSONResponse({"error": "No server has published its address in this store."}, 404)
        _, port = request.scope["server"]  # as the socket is bound, whatever the client calls it
        return JSONResponse({"service": SERVICE, "proof": proof_of(found.key, nonce, port)})

    return Route(PROOF, answer, methods=["GET"])
