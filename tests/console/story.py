"""What the screens of the tests and the pictures show, besides conversations: memories, schedules, skills, rules."""

from typing import Final

from holdfast.domain.content import Json
from tests.api.server_process import Server

_MEMORIES = (
    ("The bakery closes at 18:00 on Saturdays.", "semantic", 0.8),
    ("Ada wants release notes without marketing words.", "procedural", 0.9),
    ("The nightly index was paused on Monday, and the lag went away.", "episode", 0.5),
)
PAGE: Final = """<!doctype html><title>Flour</title>
<style>h1 { color: teal }</style>
<h1>Which flour is for rye bread?</h1>
<script>parent.pwned = 1</script>
<img src="http://evil.example/x.png" onerror="parent.pwned = 1"><img src="/api/me">
<meta http-equiv="refresh" content="0;url=http://evil.example/">
<p>Rye flour of type 1150.</p>
"""


def tell(server: Server) -> dict[str, str]:
    """Fill the default space of a server, and return the addresses of the screens that show one thing."""
    thread = server.request("/api/runs?wait=30", {"input": "When does the bakery close?", "agent_type": "baker"})
    message = server.request(f"/api/threads/{thread['thread_id']}/messages")["items"][0]
    source: Json = {"message_id": message["id"], "thread_id": thread["thread_id"], "start": 5, "end": 20}
    first, *_ = [
        server.request("/api/memories", {"text": text, "type": kind, "importance": weight, "sources": [source]})
        for text, kind, weight in _MEMORIES
    ]
    newer: Json = {"memory": {"text": "The bakery closes at 17:00 on Saturdays.", "type": "semantic"}}
    kept = server.request(f"/api/memories/{first['id']}/supersede", newer)
    run: Json = {"type": "run", "agent": "guide", "input": "What is left of yesterday?"}
    morning = server.request("/api/schedules", {"name": "morning", "cron": "0 9 * * 1-5", "action": run})
    server.request(f"/api/schedules/{morning['id']}/run", {}, method="POST")
    paused = server.request("/api/schedules", {"name": "price list", "cron": "0 12 * * 5", "action": run})
    server.request(f"/api/schedules/{paused['id']}/pause", method="POST")
    later: Json = {"content": "Ask Mia about the offer", "trigger_type": "time", "trigger_value": "in 2 h"}
    reminder = server.request("/api/reminders", later)
    soon: Json = {"content": "The oven is due for service", "trigger_type": "time", "trigger_value": "in 3 h"}
    server.request(f"/api/reminders/{server.request('/api/reminders', soon)['id']}/trigger", method="POST")
    server.request("/daemons/watcher/trigger", {})
    skill: Json = {
        "name": "price-list",
        "description": "Use it for questions about prices.",
        "instructions": "Read `prices.csv` first.\n\n- Name the date of the list.",
        "triggers": ["price"],
    }
    made = server.request("/api/skills", skill)
    server.request(f"/api/skills/{made['id']}", {"description": "Use it for prices."}, method="PATCH")
    asked = "When does the bakery close on Saturdays, and what is the price of rye bread?"
    server.request("/api/runs?wait=30", {"input": asked, "agent_type": "baker"})
    server.request("/api/budget", {"period": "month", "cost_usd": 50}, method="PUT")
    server.request("/api/spaces", {"id": "kitchen", "name": "Kitchen"})
    talk = server.request("/api/runs?wait=30", {"input": "Which flour for the rye bread?", "agent_type": "echo"})
    forks = [
        server.request(
            f"/api/threads/{talk['thread_id']}/runs?wait=30",
            {"input": words, "base_run_id": talk["id"], "base_sequence": 1},
        )
        for words in ("And for **wheat**?", "And without gluten?")
    ]
    page: Json = {"type": "report", "title": "Flour", "media_type": "text/html", "content": PAGE}
    made = server.request(f"/api/runs/{talk['id']}/artifacts", page)
    server.request(
        f"/api/runs/{talk['id']}/artifacts", page | {"id": made["id"], "content": PAGE.replace("rye", "oat")}
    )
    agent = server.workspace / "agents" / "guide"
    (agent / "AGENT.md").write_text((agent / "AGENT.md").read_text() + "\nBe brief.\n")
    thread_path = f"t/{talk['thread_id']}"
    return {
        "steps": f"{thread_path}/{talk['id']}?side=steps",
        "told": f"{thread_path}/{talk['id']}?side=context",
        "artifacts": f"{thread_path}/{talk['id']}?side=artifacts",
        "compare": f"{thread_path}/compare/{forks[0]['id']}/{forks[1]['id']}",
        "context": f"r/{forks[1]['id']}/context",
        "memory/one": f"memory/{first['id']}",
        "memory/told": f"memory/{kept['id']}",
        "schedules/one": f"schedules/{morning['id']}",
        "reminders/one": f"reminders/{reminder['id']}",
        "daemons/one": "daemons/watcher",
        "skills/one": "skills/price-list",
        "skills/used": "skills/short-answers",
        "agents/one": "agents/releaser",
        "agents/edited": "agents/guide",
    }


LISTS = (
    "find?q=bakery",
    "runs",
    "board",
    "memory",
    "schedules",
    "reminders",
    "daemons",
    "skills",
    "agents",
    "costs",
    "workers",
    "news",
    "settings",
    "settings/models",
    "settings/keys",
    "settings/spaces",
    "settings/rules",
    "settings/browser",
    "more",
)
