"""A kind of work from another package: it writes a line into a file. It brings no tools, command or form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from duetime.engine.kind import Work
from duetime.engine.outcome import Completed, Outcome
from duetime.service.kind_spec import BuildContext, KindSpec
from duetime.service.payload_model import ModelKind


@dataclass(frozen=True, slots=True)
class Beep:
    text: str = field(metadata={"description": "What it writes."})
    file: str = field(metadata={"description": "The file that it writes to."})
    times: int = field(default=1, metadata={"description": "How often."})
    loud: bool = False


class BeepKind(ModelKind):
    name = "beep"
    model = Beep
    subject = "file"

    def execute(self, work: Work) -> Outcome:
        beep = Beep(**work.payload)
        line = beep.text.upper() if beep.loud else beep.text
        with Path(beep.file).open("a") as file:
            file.write(f"{line}\n" * beep.times)
        return Completed(json.dumps({"written": beep.times}))


def build(_context: BuildContext) -> BeepKind:
    return BeepKind()


SPEC = KindSpec(
    name="beep", plural="beeps", build="toykind:build", title="Write a line", family="beeps", payload="toykind:Beep"
)
