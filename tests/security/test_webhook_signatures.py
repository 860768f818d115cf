"""How senders of webhooks prove that a request is theirs: the published vectors of each scheme, and what is refused."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest

from duetime.engine.clock import SECOND, Instant
from duetime.engine.errors import InvalidInput
from duetime.security.webhook_signatures import SCHEMES, WrongSignature, check_secret, new_secret, verify
from tests.support.webhooks import sign

NOW = Instant(1_700_000_000 * SECOND)

# docs.github.com, "Validating webhook deliveries"
GITHUB_SECRET, GITHUB_BODY = "It's a Secret to Everybody", b"Hello, World!"
GITHUB_DIGEST = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
# the specification of Standard Webhooks and its libraries
STANDARD_SECRET, STANDARD_BODY, STANDARD_AT = (
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    b'{"test": 2432232314}',
    1614265330,
)
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(STANDARD_AT),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
# RFC 4231, test case 2: the key "Jefe"; it is shorter than the secrets that are accepted for a new hook
RFC_SECRET, RFC_BODY = "Jefe", b"what do ya want for nothing?"
RFC_DIGEST = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


def at(seconds: int) -> Instant:
    return Instant(seconds * SECOND)


def test_the_vector_of_github() -> None:
    headers = {"x-hub-signature-256": f"sha256={GITHUB_DIGEST}", "x-github-delivery": "72d3162e"}
    assert verify("github", GITHUB_SECRET, headers, GITHUB_BODY, NOW) == GITHUB_DIGEST, "the key is what is signed"


def test_the_vector_of_standard_webhooks() -> None:
    id = STANDARD["webhook-id"]
    assert verify("standard", STANDARD_SECRET, STANDARD, STANDARD_BODY, at(STANDARD_AT)) == id
    older = {name.replace("webhook", "svix"): value for name, value in STANDARD.items()}
    assert verify("standard", STANDARD_SECRET, older, STANDARD_BODY, at(STANDARD_AT)) == id
    two = STANDARD | {"webhook-signature": f"v1a,abc v1,{'A' * 43}= {STANDARD['webhook-signature']}"}
    assert verify("standard", STANDARD_SECRET, two, STANDARD_BODY, at(STANDARD_AT)) == id, "while the sender rotates"


@pytest.mark.parametrize("header", ["x-signature", "x-shopify-hmac-sha256", "linear-signature", "x-hub-signature"])
@pytest.mark.parametrize("form", ["hex", "HEX", "sha256=", "base64"])
def test_the_vector_of_rfc_4231(header: str, form: str) -> None:
    encoded = b64encode(bytes.fromhex(RFC_DIGEST)).decode()
    value = {"hex": RFC_DIGEST, "HEX": RFC_DIGEST.upper(), "sha256=": f"sha256={RFC_DIGEST}", "base64": encoded}[form]
    assert verify("hmac", RFC_SECRET, {header: value}, RFC_BODY, NOW) is None
    assert verify("hmac", RFC_SECRET, {header: value, "idempotency-key": "a"}, RFC_BODY, NOW) == "a"


def test_a_signature_as_stripe_documents_it() -> None:
    """Stripe publishes how it signs, but no vector: the signature is over the time, a full stop, and the body."""
    secret, body, time = (
        "whsec_DaLRHCRs35vEXqOE8uTEAXGLGUOnyaFf",
        b'{"id": "evt_1", "type": "charge.failed"}',
        1492774577,
    )
    digest = hmac.new(secret.encode(), b"1492774577." + body, hashlib.sha256).hexdigest()
    header = {
        "stripe-signature": f"t={time},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39,v1={digest}"
    }
    assert verify("stripe", secret, header, body, at(time)) is None, "its id is in the body"
    with pytest.raises(WrongSignature, match="5 minutes"):
        verify("stripe", secret, header, body, at(time + 301))
    with pytest.raises(WrongSignature, match="no header has a signature that fits"):
        verify("stripe", secret, {"stripe-signature": f"t={time + 1},v1={digest}"}, body, at(time))


@pytest.mark.parametrize("late", [-301, 301, 10**9])
def test_an_old_or_future_time_is_refused(late: int) -> None:
    with pytest.raises(WrongSignature, match="5 minutes"):
        verify("standard", STANDARD_SECRET, STANDARD, STANDARD_BODY, at(STANDARD_AT + late))


@pytest.mark.parametrize("late", [-300, 0, 300])
def test_a_clock_may_differ_by_five_minutes(late: int) -> None:
    assert verify("standard", STANDARD_SECRET, STANDARD, STANDARD_BODY, at(STANDARD_AT + late))


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if each != "url"])
def test_what_one_side_signs_the_other_accepts_and_nothing_else(scheme: str) -> None:
    secret, body = new_secret(scheme), b'{"id": "evt_7"}'
    headers = sign(scheme, secret, "evt_7", body, NOW)
    key = verify(scheme, secret, headers, body, NOW)
    assert key == {"github": headers.get("x-hub-signature-256", "")[7:], "stripe": None}.get(scheme, "evt_7")
    for other in ({}, headers | dict.fromkeys(headers, ""), headers | dict.fromkeys(headers, "é\x00")):
        with pytest.raises(WrongSignature):
            verify(scheme, secret, other, body, NOW)
    for wrong, text in ((new_secret(scheme), body), (secret, body + b" "), (secret, b"")):
        with pytest.raises(WrongSignature):
            verify(scheme, wrong, headers, text, NOW)


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if each != "url"])
def test_every_changed_character_is_noticed(scheme: str) -> None:
    secret, body = new_secret(scheme), b'{"id": "evt_7"}'
    headers = sign(scheme, secret, "evt_7", body, NOW)
    name = next(each for each in headers if "signature" in each)
    value = headers[name]
    for place in range(len(value)):
        if value[place:].rstrip("=") == "":
            continue
        changed = f"{value[:place]}{'0' if value[place] != '0' else '1'}{value[place + 1 :]}"
        with pytest.raises(WrongSignature):
            verify(scheme, secret, headers | {name: changed}, body, NOW)


def test_the_reason_does_not_contain_the_secret_or_the_right_signature() -> None:
    with pytest.raises(WrongSignature) as refused:
        verify("github", GITHUB_SECRET, {"x-hub-signature-256": "sha256=00"}, GITHUB_BODY, NOW)
    assert GITHUB_DIGEST not in str(refused.value) and GITHUB_SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("scheme", "secret"),
    [
        ("github", "short"),
        ("github", "x" * 201),
        ("hmac", "sixteen\ncharacters"),
        ("standard", "whsec_not base64 at all"),
        ("url", "x" * 40),
    ],
)
def test_secrets_that_a_scheme_cannot_use_are_refused(scheme: str, secret: str) -> None:
    with pytest.raises(InvalidInput, match="secret"):
        check_secret(scheme, secret)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_new_secrets_differ_and_fit(scheme: str) -> None:
    one, other = new_secret(scheme), new_secret(scheme)
    assert one != other and len(one) >= 43
    if scheme != "url":
        assert check_secret(scheme, one) == one
