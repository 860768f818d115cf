"""An agent behind a webhook: verify the signature, do what the prompt asks, respond. `python webhook_agent.py 8900`

[agents.remote]                          # in duetime.toml
type = "webhook"
url = "http://127.0.0.1:8900/"
secret = "a long secret that both sides know"
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ.get("AGENT_SECRET", "a long secret that both sides know")


def is_genuine(signature: str, body: bytes) -> bool:
    """Verify `t=SECONDS,v1=HEX`, the HMAC-SHA256 of the time, a dot and the body."""
    parts = dict(part.split("=", 1) for part in signature.split(",") if "=" in part)
    signed = parts.get("t", "").encode() + b"." + body
    return hmac.compare_digest(hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest(), parts.get("v1", ""))


class Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not is_genuine(self.headers.get("Duetime-Signature", ""), body):
            self.send_error(401)
            return
        message = json.loads(body)  # give `text` to a model: the prompt, framed as data
        answer = {"text": f"Done for {message['owner']}: {message['prompt']}", "usage": {"output_tokens": 12}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent) as server:
        print(f"listening on port {server.server_port}", flush=True)
        server.serve_forever()
