"""Browser sessions: one-time sign-in links, session cookies and CSRF tokens.

A cookie contains a token with its own audience. It ends when it expires, on sign-out, by `duetime token revoke`, and
together with the token from which it was made or that token's own parent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from duetime.engine.clock import DAY, MINUTE, SECOND, Clock
from duetime.engine.kind import LOCAL
from duetime.security.claims import OPERATOR, Grant, InvalidToken
from duetime.security.tokens import BROWSER, Tokens

LINK_LIFE = 10 * MINUTE
SESSION_LIFE = 14 * DAY
SUBJECT = "browser"
"""Name in `duetime token list` of a session opened by a link."""
NOBODY = "nobody"
"""Session id on a server without authentication."""

_PROOF_BYTES = 32
_MASKED = re.compile(r"[0-9a-f]{128}")
_LINK = re.compile(r"(?P<expires>[0-9a-f]{8,10})\.(?P<nonce>[0-9a-f]{16})\.(?P<proof>[0-9a-f]{32})")


class Sessions:
    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self.tokens, self._clock = tokens, clock
        self._own = tokens.for_purpose(BROWSER)

    def link(self) -> str:
        """Return the code of a sign-in link for an operator; only someone with this machine's secret can create one."""
        words = f"{(self._clock.now() + LINK_LIFE) // SECOND:x}.{secrets.token_hex(8)}"
        return f"{words}.{self._proof(words)}"

    def by_link(self, link: str) -> str:
        """Return a session token and invalidate the link, on every node and across restarts."""
        match = _LINK.fullmatch(link)
        words = "" if match is None else f"{match['expires']}.{match['nonce']}"
        if match is None or not hmac.compare_digest(match["proof"], self._proof(words)):
            raise InvalidToken("this is not a sign-in link of this server")
        if int(match["expires"], 16) * SECOND <= self._clock.now():
            raise InvalidToken("the link is older than 10 minutes")
        if not self.tokens.revoke(f"link_{match['nonce']}", LINK_LIFE):  # of concurrent uses, only one succeeds
            raise InvalidToken("the link was used before")
        return self._own.issue(SUBJECT, SESSION_LIFE, owner=LOCAL, scopes=[OPERATOR])

    def by_token(self, token: str) -> str:
        """Return a session token with the rights of a bearer token, valid at most as long as that token."""
        grant = self.tokens.verify(token)
        if grant.run:
            raise InvalidToken("the token of an agent's run opens no session")
        left = grant.expires * SECOND - self._clock.now()
        return self._own.issue(
            grant.subject,
            min(SESSION_LIFE, max(left, SECOND)),
            owner=grant.owner,
            timezone=grant.zone,
            scopes=grant.scopes,
            depth=grant.depth,
            parent=grant.id,
            root=grant.parent or None,
        )

    def by_either(self, text: str) -> str:
        """Accept a bearer token or the code of a sign-in link, since people may paste either."""
        return self.by_link(text) if text.count(".") == 2 and len(text) < 80 else self.by_token(text)

    def _proof(self, words: str) -> str:
        return self.tokens.proof("link", words)[:32]

    def verify(self, token: str) -> Grant:
        return self._own.verify(token)

    def end(self, session: str) -> None:
        self._own.revoke(session, SESSION_LIFE)


class Proofs:
    """CSRF tokens that our own pages send with forms and requests, bound to the session, so that no other site knows
    them.

    Each is masked with random bytes, so that no two responses contain the same text and the length of a compressed
    response says nothing about the token.
    """

    def __init__(self, tokens: Tokens | None) -> None:
        """Derive the key. Without `tokens` there is no secret, and a random key that ends with the process is
        sufficient."""
        self._key = secrets.token_bytes(32) if tokens is None else tokens.proof("change", "").encode()

    def of(self, session: str) -> str:
        mask = secrets.token_bytes(_PROOF_BYTES)
        return (mask + _xor(mask, self._secret(session))).hex()

    def fits(self, session: str, proof: str) -> bool:
        if not _MASKED.fullmatch(proof):
            return False
        sent = bytes.fromhex(proof)
        return hmac.compare_digest(_xor(sent[:_PROOF_BYTES], sent[_PROOF_BYTES:]), self._secret(session))

    def _secret(self, session: str) -> bytes:
        return hmac.new(self._key, session.encode(), hashlib.sha256).digest()


def _xor(mask: bytes, value: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(mask, value, strict=True))
