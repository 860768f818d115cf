"""Every store keeps who wrote a payload, who started a run manually, and who retried one."""

from __future__ import annotations

from duetime.engine.clock import MINUTE, SECOND, Instant
from duetime.engine.outcome import Failed
from duetime.engine.policy import changes
from duetime.engine.policy.bulk import MANY
from duetime.engine.policy.rows import Draft
from duetime.engine.store import RunInput
from duetime.stores.base import BaseStore
from tests.support.drafts import T0, every, once
from tests.support.hand import Hand, create, create_one, the

ADA, RUN = 'person/dashboard/ada \\ "quoted"', "run/mcp/7"


def by(author: str | None, draft: Draft) -> Draft:
    return draft._replace(definition=draft.definition._replace(author=author))


def test_the_author_is_stored_with_one_schedule_and_with_many(store: BaseStore) -> None:
    assert the(store, create_one(store, by(ADA, every(MINUTE)))).definition.author == ADA
    assert the(store, create_one(store, every(MINUTE))).definition.author is None
    authors = [ADA if number % 2 else None for number in range(2 * MANY)]
    for limits in ({}, {"ada": 10_000}):
        for order in (authors, authors[::-1]):
            result = store.create([by(author, every(MINUTE)) for author in order], limits)
            assert [the(store, each.schedule.definition.id).definition.author for each in result] == order
    few = create(store, by(ADA, every(MINUTE)), by(None, every(MINUTE)), by(RUN, every(MINUTE)))
    assert [the(store, each.definition.id).definition.author for each in few] == [ADA, None, RUN]


def test_only_who_rewrites_the_text_becomes_its_author(store: BaseStore) -> None:
    schedule = create_one(store, by(ADA, every(MINUTE)))

    def edit(patch: changes.Edit) -> str | None:
        store.change(schedule, T0, lambda change: changes.edit(change._replace(actor=RUN), patch))
        return the(store, schedule).definition.author

    assert edit(changes.Edit(name="another")) == ADA
    assert edit(changes.Edit(payload='{"limit":1}')) == ADA
    assert edit(changes.Edit(payload='{"text":"new"}', rewrites=True)) == RUN


def test_a_run_with_its_own_input_is_executed_with_the_author_of_that(store: BaseStore, hand: Hand) -> None:
    schedule = create_one(store, by(ADA, every(MINUTE, payload='{"usual":1}')))
    fired = store.change(schedule, T0, lambda change: changes.fire(change._replace(actor=RUN), '{"own":1}'))
    assert store.run_input(fired.id) == RunInput('{"own":1}', RUN)
    (claim,) = hand.claim(T0)
    assert (claim.definition.payload, claim.definition.author) == ('{"own":1}', RUN)
    assert [each.definition.author for each in store.held(hand.id)] == [RUN]
    hand.record([claim], T0)

    plain = store.change(schedule, T0, lambda change: changes.fire(change._replace(actor=RUN)))
    assert store.run_input(plain.id) == RunInput(None, RUN), "it is known who started it"
    (claim,) = hand.claim(T0)
    assert claim.definition.author == ADA, "the text is still that of its author"
    hand.record([claim], T0)


def test_a_manual_retry_is_kept_with_the_attempt_before_it(store: BaseStore, hand: Hand) -> None:
    create_one(store, once(max_attempts=2, backoff=SECOND))
    (claim,) = hand.claim(T0)
    hand.record([claim], T0, Failed("no"))
    later = Instant(T0 + 2 * SECOND)
    hand.record(hand.claim(later), later, Failed("no"))
    store.change_run(claim.run.id, later, lambda c, run: changes.retry(c._replace(actor=ADA), run))
    assert [(each.number, each.actor, each.retried) for each in store.attempts(claim.run.id)] == [
        (1, None, None),
        (2, ADA, later),
    ]
