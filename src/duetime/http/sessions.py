"""People in browsers: a link that signs in once, the cookie that remembers it, and the proof that a change was meant.

What a cookie holds is a token with an audience of its own. It ends by its time, by signing out, by `duetime token
revoke`, and together with the token that it was made from.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from duetime.engine.clock import DAY, MINUTE, SECOND, Clock
from duetime.engine.kind import LOCAL
from duetime.security.claims import OPERATOR, Grant, InvalidToken
from duetime.security.tokens import Tokens

LINK_LIFE = 10 * MINUTE
SESSION_LIFE = 14 * DAY
SUBJECT = "browser"
"""What `duetime token list` calls a session that was opened by a link."""
NOBODY = "nobody"
"""The session where nobody is asked who they are."""

_LINK = re.compile(r"(?P<expires>[0-9a-f]{8,10})\.(?P<nonce>[0-9a-f]{16})\.(?P<proof>[0-9a-f]{32})")


class Sessions:
    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens, self._clock = tokens, clock
        self._own = tokens.of_browsers()

    # -- signing in -----------------------------------------------------------------------------------------------

    def link(self) -> str:
        """What stands in the link. Whoever can print one sits at this machine and has its secret: an operator."""
        words = f"{(self._clock.now() + LINK_LIFE) // SECOND:x}.{secrets.token_hex(8)}"
        return f"{words}.{self._proof(words)}"

    def by_link(self, given: str) -> str:
        """A session's token; the link is used up from now on, on every node and after every restart."""
        match = _LINK.fullmatch(given)
        words = "" if match is None else f"{match['expires']}.{match['nonce']}"
        if match is None or not hmac.compare_digest(match["proof"], self._proof(words)):
            raise InvalidToken("this is no link of this server")
        if int(match["expires"], 16) * SECOND <= self._clock.now():
            raise InvalidToken("the link is older than 10 minutes")
        if not self._tokens.revoke(f"link_{match['nonce']}", LINK_LIFE):  # of many at once, on all nodes, one is first
            raise InvalidToken("the link was used before")
        return self._own.issue(SUBJECT, SESSION_LIFE, owner=LOCAL, scopes=[OPERATOR])

    def by_token(self, given: str) -> str:
        """A session with the rights of a bearer token, for as long as that one lives at most."""
        grant = self._tokens.verify(given)
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
        )

    def _proof(self, words: str) -> str:
        return self._tokens.proof("link", words)[:32]

    # -- being signed in ------------------------------------------------------------------------------------------

    def verify(self, token: str) -> Grant:
        return self._own.verify(token)

    def end(self, session: str) -> None:
        self._own.revoke(session, SESSION_LIFE)


class Proofs:
    """What a form or a request of our own pages brings along, bound to its session: no other site can know it."""

    def __init__(self, tokens: Tokens | None) -> None:
        """Without tokens there is no secret either, and one that ends with the process will do."""
        self._key = secrets.token_bytes(32) if tokens is None else tokens.proof("change", "").encode()

    def of(self, session: str) -> str:
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def fits(self, session: str, given: str) -> bool:
        return hmac.compare_digest(self.of(session).encode(), given.encode("utf-8", "replace"))
