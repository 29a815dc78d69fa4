"""The state of a run: the client's own at the tip of a branch, that of the base where the run forks."""

from tests.api.ag_ui.driver import Driver
from tests.api.ag_ui.test_interrupts import resolved
from tests.api.site import Site
from tests.scenario.agents.workshop import SPACE


async def test_the_state_of_a_client_is_the_runs_and_is_not_sent_back(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    assert first.all("STATE_SNAPSHOT") == []
    await client.edit(state={"a": 2})
    second = await client.say("two")
    assert second.all("STATE_SNAPSHOT") == []
    values = await site.store.values.of_run(SPACE, second.events[0]["runId"])
    assert values["state"] == {"a": 2}


async def test_a_client_without_a_state_is_sent_that_of_the_base(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    fresh = await driver.client(site.url, first.events[0]["threadId"])
    outcome = await fresh.say("two")
    assert outcome.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert outcome.state == {"a": 1}


async def test_a_fork_goes_back_to_the_state_that_there_was(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    await client.edit(state={"a": 2})
    await client.say("two")
    await client.edit(messages=first.messages[:1])
    again = await client.run()
    assert again.one("STATE_SNAPSHOT")["snapshot"] == {"a": 1}
    assert again.state == {"a": 1}


async def test_a_first_message_that_is_edited_begins_without_a_state(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    await client.edit(messages=[{**first.messages[0], "content": "ONE"}])
    again = await client.run()
    assert again.one("STATE_SNAPSHOT")["snapshot"] == again.state == {}


async def test_who_answers_without_the_state_of_the_run_is_sent_it(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "asker", state={"a": 1})
    (question,) = (await client.say("one")).interrupts
    await client.edit(state={"a": 2})
    answered = await client.run(resume=[resolved(question, "this")])
    assert answered.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert answered.state == {"a": 1}


async def test_who_answers_with_the_state_of_the_run_is_not_sent_it(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "asker", state={"a": 1})
    (question,) = (await client.say("one")).interrupts
    assert (await client.run(resume=[resolved(question, "this")])).all("STATE_SNAPSHOT") == []
