"""Branch points: a run continues after the last message that the client's list and one chain share."""

from typing import Any

import pytest

from holdfast.domain.content import Json
from tests.api.ag_ui.driver import Client, Driver, Outcome
from tests.api.site import Site


def user(name: str, text: str) -> dict[str, Json]:
    return {"id": name, "role": "user", "content": text}


async def base_of(site: Site, outcome: Outcome) -> tuple[str | None, int | None]:
    """Return the base of a run, which its first event names too."""
    started = outcome.events[0]
    run = await site.get(f"/api/runs/{started['runId']}")
    assert run["base_run_id"] == started.get("parentRunId")
    return run["base_run_id"], run["base_sequence"]


async def conversation(site: Site, outcome: Outcome) -> list[str]:
    started = outcome.events[0]
    path = f"/api/threads/{started['threadId']}/messages"
    items = (await site.get(path, run_id=started["runId"]))["items"]
    return [f"{each['role']}: {each['content']}" for each in items]


async def talk(client: Client, *texts: str) -> list[Outcome]:
    return [await client.say(text, message=text) for text in texts]


def run_of(outcome: Outcome) -> str:
    name: str = outcome.events[0]["runId"]
    return name


async def test_an_edited_message_forks_before_it_and_the_next_turn_continues_the_fork(
    site: Site, driver: Driver
) -> None:
    client = await driver.on(site)
    first, second = await talk(client, "one", "two")
    kept = second.messages[:2]
    await client.edit(messages=[*kept, user("two", "TWO")])
    fork = await client.run()
    assert await base_of(site, fork) == (run_of(first), None)
    after = await client.say("three", message="three")
    assert await base_of(site, after) == (run_of(fork), None)
    assert await conversation(site, after) == [
        "user: one",
        "assistant: hello you",
        "user: TWO",
        "assistant: hello you",
        "user: three",
        "assistant: hello you",
    ]
    assert after.said == await conversation(site, after)


async def test_an_edited_message_names_the_message_it_revises(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    (first,) = await talk(client, "one")
    await client.edit(messages=[user("one", "ONE")])
    fork = await client.run()
    assert await base_of(site, fork) == (None, None)
    items = (await site.get(f"/api/threads/{fork.events[0]['threadId']}/messages", run_id=run_of(fork)))["items"]
    assert (items[0]["id"], items[0]["content"], items[0]["revises"]) == ("one", "ONE", "one")
    assert len(items) == 2
    assert run_of(fork) != run_of(first)


async def test_a_regenerated_reply_forks_after_the_user_message(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first, second = await talk(client, "one", "two")
    await client.edit(messages=second.messages[:-1])
    again = await client.run()
    assert await base_of(site, again) == (run_of(second), 2)
    assert await conversation(site, again) == ["user: one", "assistant: hello you", "user: two", "assistant: hello you"]
    assert again.messages[-1]["id"] != second.messages[-1]["id"]


async def test_a_client_on_an_older_branch_stays_there(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first, second = await talk(client, "one", "two")
    older = second.messages
    await client.edit(messages=[*older[:2], user("two", "TWO")])
    await client.run()
    await client.edit(messages=older)
    back = await client.say("three", message="three")
    assert await base_of(site, back) == (run_of(second), None)
    assert "user: TWO" not in await conversation(site, back)


async def test_a_new_branch_from_the_middle_of_the_conversation(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first, second = await talk(client, "one", "two")
    await client.edit(messages=second.messages[:2])
    branch = await client.say("other", message="other")
    assert await base_of(site, branch) == (run_of(first), None)
    assert await conversation(site, branch) == branch.said


async def test_a_client_without_history_continues_the_newest_run(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first, second = await talk(client, "one", "two")
    stranger = await driver.client(site.url, first.events[0]["threadId"])
    outcome = await stranger.say("hello?")
    assert await base_of(site, outcome) == (run_of(second), None)


async def test_a_message_that_a_snapshot_has_moved_does_not_fork(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    *_, third = await talk(client, "one", "two", "three")
    first, answer, *later = third.messages
    await client.edit(messages=[first, *later[:2], answer, *later[2:]])
    outcome = await client.say("four", message="four")
    assert await base_of(site, outcome) == (run_of(third), None)
    assert len(await conversation(site, outcome)) == 8


async def test_unknown_assistant_reasoning_and_activity_messages_are_skipped(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    (first,) = await talk(client, "one")
    strange: list[Any] = [
        {"id": "x1", "role": "assistant", "content": "I am not yours"},
        {"id": "x2", "role": "reasoning", "content": "hm"},
        {"id": "x3", "role": "activity", "activityType": "step", "content": {}},
    ]
    await client.edit(messages=[*first.messages, *strange])
    outcome = await client.say("two", message="two")
    assert await base_of(site, outcome) == (run_of(first), None)
    assert len(await conversation(site, outcome)) == 4


async def test_a_developer_message_becomes_a_system_message(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    await client.edit(messages=[{"id": "d1", "role": "developer", "content": "be kind"}])
    first = await client.say("one", message="one")
    second = await client.say("two", message="two")
    assert (await conversation(site, second))[0] == "system: be kind"
    assert await base_of(site, second) == (run_of(first), None)


@pytest.mark.parametrize("way", ["props", "query", "parent"])
async def test_a_request_may_name_its_base_run(site: Site, driver: Driver, way: str) -> None:
    client = await driver.on(site)
    first, _ = await talk(client, "one", "two")
    thread, name = first.events[0]["threadId"], run_of(first)
    if way == "props":
        await client.edit(messages=[])
        outcome = await client.say("three", forwardedProps={"baseRunId": name})
        assert await base_of(site, outcome) == (name, None)
        return
    body = {"threadId": thread, "runId": f"{way}-{name}", "messages": [user("three", "three")]}
    query = f"?base_run_id={name}" if way == "query" else ""
    more = {"parentRunId": name} if way == "parent" else {}
    answer = await site.request("POST", f"/api/threads/{thread}/runs{query}", json={**body, **more})
    assert answer.status_code == 200
    assert (await site.get(f"/api/runs/{body['runId']}"))["base_run_id"] == name


async def test_client_context_reaches_the_model_but_is_not_a_client_message(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    first = await client.say("one", message="one", context=[{"description": "page", "value": "cart"}])
    second = await client.say("two", message="two")
    assert await base_of(site, second) == (run_of(first), None)
    assert (await conversation(site, second))[0].endswith("- page: cart")
    assert [each["role"] for each in second.messages] == ["user", "assistant"] * 2
    await client.edit(messages=[user("one", "ONE")])
    assert await base_of(site, await client.run()) == (None, None)


async def test_an_edit_that_keeps_later_messages_repeats_them_on_the_fork(site: Site, driver: Driver) -> None:
    client = await driver.on(site)
    _, second = await talk(client, "one", "two")
    await client.edit(messages=[user("one", "ONE"), *second.messages[1:]])
    fork = await client.say("three", message="three")
    assert await base_of(site, fork) == (None, None)
    assert await conversation(site, fork) == ["user: ONE", "user: two", "user: three", "assistant: hello you"]
