"""Bearer tokens: JWTs, signed with HS512 and one secret. A token identifies the caller; the store knows which tokens
are revoked.

Every issued token has a record for `token list`, which is kept until some time after the token expires. Each record is
a file of its own that is created atomically, so that no process has to rewrite what another one wrote. The sessions of
a token share one file, because a token can open any number of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jwt

from duetime.engine.clock import DAY, HOUR, SECOND, Clock, Instant, datetime_of
from duetime.engine.errors import DuetimeError, InvalidInput
from duetime.engine.kind import LOCAL
from duetime.engine.model import run_holder
from duetime.engine.times.zones import known_zone
from duetime.security.claims import (
    ID,
    Grant,
    InvalidToken,
    checked_email,
    checked_name,
    checked_scopes,
    grant_of,
    seconds_of,
)
from duetime.security.private_files import create_private, make_private, read_private, replace_private
from duetime.security.revocations import MAX_REVOCATION_AGE, StoreRevocations

ALGORITHM = "HS512"
BROWSER = "browser"
CALENDAR = "calendar"
LOCAL_LIFE = 3650 * DAY
"""The local token is in the configuration of clients: if it expired, all of them would stop working."""
SKEW = 60
"""Seconds that the clock of a token's issuer may be ahead."""
LISTED = 30 * DAY // SECOND
"""Seconds for which the record of an expired token is still listed."""
TIDIED = 3600
"""Seconds between two searches for records to delete."""
SESSIONS = 20
"""Sessions of one token that are valid at a time: a further one ends the oldest."""
SIGN_INS = 60
"""Sign-ins with one token in an hour. Sign-in links, which only an operator can create, are not limited."""
MOST_READ = 2_000
"""Number of tokens whose verified claims are cached."""

_REQUIRED = ["iss", "aud", "sub", "iat", "exp", "jti"]
_COPY = "copy it whole, as `duetime token issue` printed it"
_UNREADABLE = f"the token cannot be read; {_COPY}"
_keeping = threading.Lock()


class TooManySignIns(DuetimeError):
    """The token has been used for too many sign-ins."""

    code = "too_many_requests"


class Tokens:
    def __init__(
        self,
        secret: bytes,
        folder: Path,
        clock: Clock,
        *,
        issuer: str,
        audience: str,
        revocations: StoreRevocations,
        purpose: str = "",
    ) -> None:
        self._secret, self._clock = secret, clock
        self._issuer, self._purpose = issuer, purpose
        self._audience = f"{audience}#{purpose}" if purpose else audience
        self._folder, self._records = folder, folder / "tokens"
        self.revocations = revocations
        self._tidied = 0
        self._read: dict[bytes, Grant] = {}
        """Claims by the digests of tokens whose signatures were verified; tokens themselves are not kept, so they
        cannot leak."""
        self.is_under_way: Callable[[int, int], bool] = lambda _run, _fence: False
        """Returns whether a run is in progress with the fence for which its token was made; set by code that has the
        store."""

    # -- issuing ------------------------------------------------------------------------------------------------

    def issue(
        self,
        subject: str,
        life: int,
        *,
        email: str | None = None,
        owner: str | None = None,
        timezone: str | None = None,
        scopes: Sequence[str] = (),
        depth: int = 0,
        parent: str | None = None,
        root: str | None = None,
    ) -> str:
        """Issue a token for `life` microseconds. Its record is written first, so that it can always be revoked."""
        claims = self._new_claims(
            life,
            sub=checked_name("sub", subject),
            email=None if email is None else checked_email(email),
            owner=None if owner is None else checked_name("owner", owner),
            zoneinfo=None if timezone is None else known_zone(timezone).key,
            scope=" ".join(checked_scopes(scopes)) or None,
            depth=depth or None,
            parent=parent,
            root=root,
            jti=secrets.token_hex(10),
        )
        self._keep(grant_of(claims))
        return jwt.encode(claims, self._secret, ALGORITHM)

    def for_run(
        self, owner: str, run: int, fence: int, depth: int, life: int, timezone: str, allowed: str = "{}"
    ) -> str:
        """Issue a token for one run of an agent. It has no record and is valid only while the run is in progress.
        `allowed` says what the run may use; whatever the run schedules gets no more."""
        about = {"sub": owner, "zoneinfo": known_zone(timezone).key, "depth": depth, "run": run, "fence": fence}
        about |= {"allowed": allowed}
        claims = self._new_claims(life, **about, jti=run_holder(run, fence))
        return jwt.encode(claims, self._secret, ALGORITHM)

    def _new_claims(self, life: int, **claims: Any) -> dict[str, Any]:
        now = self._now()
        claims |= {"iss": self._issuer, "aud": self._audience, "iat": now, "exp": now + seconds_of(life)}
        return {name: value for name, value in claims.items() if value is not None}

    def local(self) -> str:
        """Return the token of this machine's user, which is created once, stored, and reused while it is valid."""
        path = self._folder / "local.token"
        stored = (read_private(path) or "").strip()
        if stored and self._serves(stored):
            return stored
        token = self.issue(LOCAL, LOCAL_LIFE)
        replace_private(path, token + "\n")
        return token

    def _serves(self, token: str) -> bool:
        try:
            grant = self.verify(token)
        except InvalidToken:
            return False
        return grant.owner == LOCAL and grant.expires - self._now() > 30 * DAY // SECOND

    def _keep(self, grant: Grant) -> None:
        make_private(self._folder)
        make_private(self._records)
        record: dict[str, Any] = {"sub": grant.subject, "owner": grant.owner, "zoneinfo": grant.zone}
        record |= {"scope": " ".join(grant.scopes), "iat": grant.issued, "exp": grant.expires}
        record |= {"for": self._purpose, "parent": grant.parent}
        self._tidy()
        if self._purpose == BROWSER:
            self._keep_session(grant, record | {"jti": grant.id})
        else:
            create_private(self._records / f"{grant.id}.json", json.dumps(record) + "\n")

    def _keep_session(self, grant: Grant, record: dict[str, Any]) -> None:
        """Add a session to the file of its token or, if it was opened by a link, of all links, and end those that are
        too many. If two processes do so at the same time, the file may lack one session, which stays valid."""
        path, most = self._records / f"{grant.parent or 'links'}.sessions", SESSIONS if grant.parent else SIGN_INS
        with _keeping:
            records, grants = self._read_records(path), self._grants(path)
            if grant.parent and len(grants) >= SIGN_INS and grants[-SIGN_INS].issued > self._now() - HOUR // SECOND:
                words = f"this token has signed in {SIGN_INS} times within an hour; use one of those sessions, or wait"
                raise TooManySignIns(words)
            replace_private(path, json.dumps([*records, record][-SIGN_INS:]) + "\n")
        living = [each for each in grants if each.expires > self._now() and not self.is_revoked(each.id)]
        for each in {*grants[: 1 - SIGN_INS], *living[: 1 - most]}:
            self.revoke(each.id, max(0, each.expires - self._now()) * SECOND)

    def _tidy(self) -> None:
        """Delete the records of tokens that expired long ago."""
        now = self._now()
        if now - self._tidied < TIDIED:
            return
        self._tidied = now
        for path in self._files():
            records = self._grants(path)
            if records and records[-1].expires < now - LISTED:
                path.unlink(missing_ok=True)

    # -- verifying ----------------------------------------------------------------------------------------------

    def read(self, token: str) -> Grant:
        """Return the claims of a token that was signed here, whether or not it is currently valid. Raise
        InvalidToken."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        grant = self._read.get(digest)
        if grant is None:
            grant = grant_of(self._claims(token))
            if len(self._read) >= MOST_READ:
                self._read.clear()
            self._read[digest] = grant
        return grant

    def verify(self, token: str) -> Grant:
        """Return the claims of a valid token. Raise InvalidToken, or StoreUnavailable if revocation cannot be
        checked."""
        grant = self._in_time(token)
        is_revoked = self.revocations.is_revoked
        if is_revoked(grant.id, grant.parent) or (grant.root and is_revoked(grant.root)):
            raise InvalidToken("the token was revoked")
        if grant.run and not self.is_under_way(grant.run, grant.fence):
            raise InvalidToken("the run that this token was for is over")
        return grant

    def verify_at_once(self, token: str) -> Grant | None:
        """Do the same without waiting; return None if the store has to be read."""
        grant = self._in_time(token)
        known = not grant.run and not grant.root and self.revocations.is_known_valid(grant.id, grant.parent)
        return grant if known else None

    def _in_time(self, token: str) -> Grant:
        """Return the claims of a token that was signed here and is within its period of validity."""
        grant = self.read(token)
        now = self._now()
        if grant.expires <= now:
            raise InvalidToken(
                f"the token expired on {datetime_of(Instant(grant.expires * SECOND)):%Y-%m-%d %H:%M} UTC"
            )
        if max(grant.issued, grant.begins) > now + SKEW:
            raise InvalidToken("the token is not valid yet; check the clocks")
        return grant

    def _claims(self, token: str) -> dict[str, Any]:
        # Times are checked against our own clock, which tests can set.
        options: Any = {"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "verify_nbf": False}
        try:
            return dict(
                jwt.decode(token, self._secret, [ALGORITHM], options, issuer=self._issuer, audience=self._audience)
            )
        except jwt.PyJWTError as error:
            raise InvalidToken(_why(error)) from None
        except (ValueError, RecursionError):  # invalid text or numbers
            raise InvalidToken(_UNREADABLE) from None

    def _now(self) -> int:
        return self._clock.now() // SECOND

    def for_purpose(self, purpose: str) -> Tokens:
        """Return tokens for cookies, or for URLs of calendar feeds, with an audience of their own: none is accepted in
        place of another."""
        named = {"issuer": self._issuer, "audience": self._audience}
        return Tokens(self._secret, self._folder, self._clock, **named, purpose=purpose, revocations=self.revocations)

    def proof(self, purpose: str, words: str) -> str:
        """Return a MAC of `words`, for values that are not tokens. The colons keep its input distinct from that of
        tokens."""
        return hmac.new(self._secret, f"duetime:{purpose}:{words}".encode(), hashlib.sha256).hexdigest()

    # -- what was issued ----------------------------------------------------------------------------------------

    def is_revoked(self, id: str) -> bool:
        return self.revocations.is_revoked(id)

    def revoke(self, id: str, life: int | None = None) -> bool:
        """Revoke an id, known or not; return False if it was already revoked. `life` is the maximum number of
        microseconds for which it would have been valid."""
        if not ID.fullmatch(id):
            raise InvalidInput(field="id", problem="this is not the id of a token; `token list` shows them")
        until = self._clock.now() + (MAX_REVOCATION_AGE if life is None else life + DAY)
        return self.revocations.revoke(id, Instant(until))

    def issued(self) -> list[Grant]:
        """Return the records, oldest first, each with whether it was revoked."""
        records = [record._replace(revoked=self.is_revoked(record.id)) for record in self.records()]
        return sorted(records, key=lambda record: record.issued)

    def records(self) -> list[Grant]:
        """Return the records without checking for revocations."""
        return [record for path in self._files() for record in self._grants(path)]

    def _files(self) -> list[Path]:
        return [*self._records.glob("*.json"), *self._records.glob("*.sessions")]

    def _read_records(self, path: Path) -> list[dict[str, Any]]:
        """Return the records in a file."""
        try:
            records = json.loads(read_private(path) or "[]")
        except (ValueError, RecursionError):
            return []
        records = records if isinstance(records, list) else [records]
        return [{"jti": path.stem, **each} for each in records if isinstance(each, dict)]

    def _grants(self, path: Path) -> list[Grant]:
        try:
            return [grant_of(each)._replace(purpose=str(each.get("for", ""))) for each in self._read_records(path)]
        except InvalidToken:
            return []


def decode_unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims without verification, for display only; they must not be trusted."""
    try:
        read = jwt.api_jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise InvalidToken(f"this is not a token; {_COPY}") from None
    return dict(read["header"]), dict(read["payload"])


def _why(error: jwt.PyJWTError) -> str:
    if isinstance(error, jwt.InvalidSignatureError):
        return "the token was not signed with this server's secret"
    if isinstance(error, jwt.InvalidAlgorithmError):
        return f"the token is not signed with {ALGORITHM}"
    if isinstance(error, jwt.InvalidIssuerError):
        return "the token has another issuer"
    if isinstance(error, jwt.InvalidAudienceError):
        return "the token is meant for another audience"
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"the token has no claim {error.claim}"
    return _UNREADABLE
