"""Files of schedules: reads TOML, JSON or YAML with a table for each schedule, and writes TOML.

`${NAME}` in a text is a variable of the environment, for credentials, which are not for files; `$${` is the text `${`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from duetime.engine.kind import LOCAL
from duetime.kinds import load_specs
from duetime.service.errors import refuse
from duetime.service.operations.apply import ApplyFile
from duetime.service.schedule_files import FileEntry, tables_of
from duetime.service.services import Call
from duetime.service.text import value_of
from duetime.service.vocabulary import Schedule

HEAD: Final = "duetime"
"""The table about the file itself."""
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_schedules(file: str, text: str, environment: Mapping[str, str]) -> ApplyFile:
    """Read a file of schedules, with the variables that it refers to. Refuse it if one of them is not set."""
    document, missing, variable_texts = _parse(file, text), dict[str, None](), set[str]()

    def fill(match: re.Match[str]) -> str:
        missing.update({} if match[1] is None or match[1] in environment else {match[1]: None})
        return "${" if match[1] is None else environment.get(match[1], "")

    def fill_in(text: str) -> str:
        whole = _REFERENCE.sub(fill, text)
        names = [name for name in _REFERENCE.findall(text) if name]
        variable_texts.update([whole, *(environment.get(name, "") for name in names)] if names else [])
        return whole

    head = document.pop(HEAD, {})
    if not isinstance(head, dict) or not head.keys() <= {"name", "owner"}:
        raise refuse("invalid_file", f'[{HEAD}] has name = "…" and owner = "…", and nothing else')
    entries = _entries(document, fill_in)
    if missing:
        advice = "set them, or write $${ where you mean the text ${"
        raise refuse("invalid_file", f"the environment has no {', '.join(missing)}, which the file refers to; {advice}")
    name, owner = str(head.get("name", Path(file).stem)), str(head.get("owner", LOCAL))
    return ApplyFile(name, entries, owner, is_named="name" in head, variable_texts=frozenset(variable_texts - {""}))


def _parse(file: str, text: str) -> dict[str, Any]:
    suffix = Path(file).suffix.lower()
    try:
        if suffix in (".yaml", ".yml"):
            document = import_module("yaml").safe_load(text)
        else:
            document = json.loads(text) if suffix == ".json" else tomllib.loads(text)
    except ImportError:
        raise refuse("invalid_file", "YAML needs the extra `yaml` (pip install pyyaml); or use TOML or JSON") from None
    except Exception as error:  # of three parsers
        raise refuse("invalid_file", f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise refuse("invalid_file", f"{file} needs a table for each schedule, such as [jobs.backup]")
    return document


def _entries(document: Mapping[str, Any], change: Callable[[str], str]) -> list[FileEntry]:
    kinds = {name: spec.name for spec in load_specs().values() for name in (spec.name, spec.plural)}
    entries = dict[str, FileEntry]()
    for heading, table in document.items():
        for name, values in table.items() if heading in kinds and isinstance(table, dict) else [("", None)]:
            if not isinstance(values, dict):
                known = ", ".join(spec.plural for spec in load_specs().values())
                example = f"needs tables such as [jobs.backup], of one of these kinds: {known}"
                raise refuse("invalid_file", f"[{str(heading)[:60]}] {example}")
            payload = values.get("payload")
            whole = {"payload": value_of(payload)} if isinstance(payload, str) else {}
            entry = FileEntry(kinds[heading], str(name), _plain(values | whole, change))
            if entries.setdefault(entry.path, entry) is not entry:
                raise refuse("invalid_file", f"{entry.path} is there twice; give each schedule its own heading")
    return list(entries.values())


def _plain(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with all of its texts changed. Times become texts, and so does a name that YAML reads as true."""
    if isinstance(value, dict):
        return {"on" if name is True else str(name): _plain(each, change) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, change) for each in value]
    value = value.isoformat() if isinstance(value, date | time) else value
    return change(value) if isinstance(value, str) else value


def toml_export(
    call: Call, schedules: Sequence[Schedule], owner: str, name: str
) -> tuple[str, list[Schedule], list[str]]:
    """Return a file of an owner's schedules, those that it contains, and notes."""
    import tomlkit  # takes long to import

    tables, chosen, notes = tables_of(call, schedules, owner, name)
    entries = [{kind: {each: values}} for kind, table in tables.items() for each, values in table.items()]
    head = {HEAD: {"name": name} if owner == LOCAL else {"name": name, "owner": owner}}
    texts = [f"# {each}\n" for each in notes]
    for each in (head, *entries):  # one at a time: the time for a whole document grows with the square of its size
        table = _plain(each, lambda text: tomlkit.string(text, multiline="\n" in text and "\r" not in text))
        texts.append(f"{tomlkit.dumps(table)}\n")
    return "".join(texts), chosen, notes
