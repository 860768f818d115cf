"""`python -m reference`: write the pages again."""

from __future__ import annotations

import sys

from reference.pages import FOLDER, PAGES


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
