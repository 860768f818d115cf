"""Start `duetime mcp` with the settings file that was chosen for this bundle, if there is one."""

import os
import sys

from duetime.cli.main import main

chosen = os.environ.pop("DUETIME_BUNDLE_SETTINGS", "")
# A client that leaves out an optional value passes the name of the variable itself.
named = ["--config", chosen] if chosen and not chosen.startswith("${") else []
sys.exit(main(["mcp", *named]))
