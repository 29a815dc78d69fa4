"""The state of a run: the client's at the tip of a branch, the base's at a fork."""

from tests.api.ag_ui.driver import Driver
from tests.api.ag_ui.test_interrupts import resolved
from tests.api.site import Site
from tests.scenario.agents.agent_workspace import SPACE


async def test_the_client_state_becomes_the_run_state_and_is_not_sent_back(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    assert first.all("STATE_SNAPSHOT") == []
    await client.edit(state={"a": 2})
    second = await client.say("two")
    assert second.all("STATE_SNAPSHOT") == []
    values = await site.store.values.of_run(SPACE, second.events[0]["runId"])
    assert values["state"] == {"a": 2}


async def test_a_client_without_a_state_receives_the_state_of_the_base(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    fresh = await driver.client(site.url, first.events[0]["threadId"])
    outcome = await fresh.say("two")
    assert outcome.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert outcome.state == {"a": 1}


async def test_a_fork_restores_the_state_of_its_base(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    await client.edit(state={"a": 2})
    await client.say("two")
    await client.edit(messages=first.messages[:1])
    again = await client.run()
    assert again.one("STATE_SNAPSHOT")["snapshot"] == {"a": 1}
    assert again.state == {"a": 1}


async def test_an_edited_first_message_starts_without_a_state(site: Site, driver: Driver) -> None:
    client = await driver.on(site, state={"a": 1})
    first = await client.say("one")
    await client.edit(messages=[{**first.messages[0], "content": "ONE"}])
    again = await client.run()
    assert again.one("STATE_SNAPSHOT")["snapshot"] == again.state == {}


async def test_a_resuming_client_with_another_state_receives_the_run_state(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "asker", state={"a": 1})
    (interrupt,) = (await client.say("one")).interrupts
    await client.edit(state={"a": 2})
    answered = await client.run(resume=[resolved(interrupt, "this")])
    assert answered.types[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert answered.state == {"a": 1}


async def test_a_resuming_client_with_the_run_state_does_not_receive_it(site: Site, driver: Driver) -> None:
    client = await driver.on(site, "asker", state={"a": 1})
    (interrupt,) = (await client.say("one")).interrupts
    assert (await client.run(resume=[resolved(interrupt, "this")])).all("STATE_SNAPSHOT") == []
