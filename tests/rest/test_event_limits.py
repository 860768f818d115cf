"""How many listen to events at a time: those who ask at the same moment too."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio.to_thread
from starlette.responses import Response
from starlette.types import Message

from duetime.engine.clock import Instant, SystemClock
from duetime.engine.errors import Refused, StoreUnavailable
from duetime.engine.kind import Caller
from duetime.engine.model import RunId
from duetime.rest.events import QUIET, _stream, events
from duetime.rest.requests import EventsAsked
from duetime.service.change_feed import Look, Position
from duetime.service.owner_limits import MAX_STREAMS, MAX_STREAMS_OF_ONE, OwnerLimits
from duetime.service.services import Call
from tests.support.api import Api


def test_all_callers_together_get_no_more_than_there_are_places(api: Api) -> None:
    limits = OwnerLimits()
    owners = [f"owner-{number}" for number in range(MAX_STREAMS // MAX_STREAMS_OF_ONE + 1)]
    calls = [Call(api.room.services, Caller(owner), "UTC") for owner in owners for _ in range(MAX_STREAMS_OF_ONE)]

    async def together() -> list[Response | BaseException]:
        return await asyncio.gather(*(events(call, limits, EventsAsked()) for call in calls), return_exceptions=True)

    answers = asyncio.run(together())
    inside = [each for each in answers if isinstance(each, Response)]
    outside = [each.code for each in answers if isinstance(each, Refused)]
    assert (len(inside), outside) == (MAX_STREAMS, ["too_many_streams"] * MAX_STREAMS_OF_ONE)
    assert {each.headers["cache-control"] for each in inside} == {"no-store"}


class Quiet:
    """Has nothing to tell, and at first no store."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> Look:
        self.looks += 1
        if self.looks == 1:
            raise StoreUnavailable("/home/ada/secret/duetime.db is locked")
        return Look([], Position(Instant(0), RunId(0)))


class Hasty(SystemClock):
    """Every look at it is a few seconds later than the one before."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += QUIET / 3
        return self.seconds


def test_a_stream_outlives_its_store_and_shows_that_it_lives(api: Api) -> None:
    follower: Any = Quiet()

    async def first(number: int) -> list[str]:
        told = _stream(follower, api.room.store, Hasty(), anyio.to_thread.run_sync)
        async with asyncio.timeout(30):
            return [await anext(told) for _ in range(number)]

    assert asyncio.run(first(3)) == [
        "retry: 2000\n\n", ": the store cannot be reached right now\n\n", ": still here\n\n",
    ]  # fmt: skip
    assert follower.looks > 3, "what is still here is not said at every look"


async def heard(response: Response) -> None:
    """By a listener who hangs up at once."""

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        pass

    await response({"type": "http", "asgi": {"spec_version": "2.0"}}, receive, send)


def test_of_many_who_ask_at_once_no_more_get_in_than_there_are_places(api: Api) -> None:
    limits = OwnerLimits()
    ada, ben = (Call(api.room.services, Caller(owner), "UTC") for owner in ("ada", "ben"))

    async def asked(call: Call, number: int, **more: Any) -> list[Response | BaseException]:
        asking = (events(call, limits, EventsAsked(**more)) for _ in range(number))
        return await asyncio.gather(*asking, return_exceptions=True)

    async def together() -> None:
        answers = await asked(ada, MAX_STREAMS_OF_ONE + 5)
        inside = [each for each in answers if isinstance(each, Response)]
        outside = [each.code for each in answers if isinstance(each, Refused)]
        assert (len(inside), outside) == (MAX_STREAMS_OF_ONE, ["too_many_streams"] * 5)
        [refused] = await asked(ben, 1, owner="ada")
        assert isinstance(refused, Refused) and refused.code == "operators_only"
        for each in [*inside, *(each for each in await asked(ben, MAX_STREAMS_OF_ONE) if isinstance(each, Response))]:
            await heard(each)
        again = await asked(ada, MAX_STREAMS_OF_ONE)
        assert all(isinstance(each, Response) for each in again), "places that were given up are free"

    asyncio.run(together())
