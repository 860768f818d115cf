"""The keys that sign deliveries: one after another for each owner, all derived from the installation's secret.

Nothing but the number of rotations is kept, as files that appear whole: no process has to read and rewrite what
another one writes, and a look at the file system is what every process sees at once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from duetime.faces.http.private import create_private, make_private


class SigningKeys:
    def __init__(self, secret: Callable[[], bytes], folder: Path) -> None:
        """The secret is asked for with the first key: most commands need none, and asking makes one."""
        self._make_secret = secret
        self._folder, self._rotations = folder, folder / "signing"

    def current(self, owner: str) -> str:
        return self._key(owner, self._generation(owner))

    def both(self, owner: str) -> tuple[str, str]:
        """The one that signs, and the one that will."""
        generation = self._generation(owner)
        return self._key(owner, generation), self._key(owner, generation + 1)

    def rotate(self, owner: str) -> None:
        """Two at once are two rotations: each makes the file of its own number."""
        of_owner = self._of_owner(owner)
        for folder in (self._folder, self._rotations, of_owner):
            make_private(folder)
        while not create_private(of_owner / str(self._generation(owner) + 1), ""):
            pass

    def _generation(self, owner: str) -> int:
        try:
            names = [path.name for path in self._of_owner(owner).iterdir()]
        except FileNotFoundError:
            return 0
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _of_owner(self, owner: str) -> Path:
        """Hashed, for an owner may be called anything."""
        return self._rotations / hashlib.sha256(owner.encode()).hexdigest()[:40]

    def _key(self, owner: str, generation: int) -> str:
        said = f"sign requests\0{generation}\0{owner}".encode()
        digest = hmac.new(self._secret, said, hashlib.sha256).digest()
        return f"sig_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    @cached_property
    def _secret(self) -> bytes:
        return self._make_secret()
