"""A simulated network: lookups with given answers, counted connects, and our own certificates."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PUBLIC = "93.184.216.34"
NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate, and is quick to build."""


class Names:
    """Replaces `socket.getaddrinfo`: each lookup returns the next answer, and the last one repeats."""

    def __init__(self, *answers: Iterable[str]) -> None:
        self._answers = [list(answer) for answer in answers]
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **options: Any) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        return [(None, None, None, "", (address, port)) for address in answer]


class Dialler(httpcore2.NetworkBackend):
    """Counts connects. They fail, or lead to one port of this machine, whatever the address."""

    def __init__(self, leads_to: int | None = None, dead: Iterable[str] = ()) -> None:
        self.dialled: list[tuple[str, int]] = []
        self.timeouts: list[float | None] = []
        self._leads_to = leads_to
        self._dead = frozenset(dead)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        self.dialled.append((host, port))
        self.timeouts.append(timeout)
        if self._leads_to is None or host in self._dead:
            raise httpcore2.ConnectError(OSError(111, "Connection refused"))
        return httpcore2.SyncBackend().connect_tcp("127.0.0.1", self._leads_to, timeout, socket_options=())


class Certified:
    """A server with a certificate for `name`, and a client that trusts nothing else. `asked` is what clients
    requested."""

    def __init__(self, name: str, folder: Path) -> None:
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        _write_certificate(name, certificate, key)
        self.asked: list[str | None] = []
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(certificate, key)
        self.server.sni_callback = lambda connection, wanted, context: self.asked.append(wanted)
        self.trust = ssl.create_default_context(cafile=str(certificate))


def _write_certificate(name: str, certificate: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=365 * 100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
