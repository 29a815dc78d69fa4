"""Nothing that people or models write is ever more than text, and nothing leaves the page."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.api.server_process import Server
from tests.console.conftest import OpenPage
from tests.console.hostile import HOSTILE_TEXTS
from tests.console.test_live import until

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

pytestmark = pytest.mark.xdist_group("console")
FOREIGN = "script, iframe, object, embed, form:not(.say), base, style, meta[http-equiv], img, video, audio, link"


_SCROLL_UP = "(box => { box.scrollTop -= box.clientHeight; return box.scrollTop })(document.querySelector('.log'))"
_SET_HTML = "(() => { try { document.body.innerHTML = 'x' } catch (error) { return error.name } })()"


async def assert_harmless(page: "Page") -> None:
    """Assert that no text became an element that runs, loads or leads away, and no script ran."""
    assert await page.evaluate("window.pwned") is None
    assert await page.evaluate("({}).pwned") is None
    assert await page.evaluate(f"document.querySelectorAll('main :is({FOREIGN})').length") == 0
    handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    assert [name for name in await page.evaluate(handlers) if name.startswith("on")] == []
    links = await page.evaluate("[...document.querySelectorAll('main a')].map(a => a.href)")
    assert [link for link in links if not link.startswith(("http://", "https://", "mailto:"))] == []


def test_there_are_enough_hostile_texts() -> None:
    assert len(set(HOSTILE_TEXTS)) >= 60


async def test_no_hostile_text_of_a_person_or_an_agent_runs_or_loads(server: Server, open_page: OpenPage) -> None:
    messages = [{"content": text, "role": role} for text in HOSTILE_TEXTS for role in ("user", "assistant")]
    body = {"messages": [*messages, {"content": "\n\n".join(HOSTILE_TEXTS)}], "agent_type": "echo"}
    run = server.request("/api/runs?wait=30", body)
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector(".entry")
    seen = 0
    while True:  # only the rows in sight exist: look at all of them
        await assert_harmless(page)
        seen += await page.locator(".entry").count()
        top = await page.evaluate(_SCROLL_UP)
        await page.wait_for_timeout(60)
        if top == 0 and await page.evaluate("document.querySelector('.entry .n').textContent") == "0":
            break
    assert seen >= len(messages)


async def test_no_hostile_title_or_question_runs_or_loads(server: Server, open_page: OpenPage) -> None:
    for text in HOSTILE_TEXTS[:20]:
        server.request("/api/threads", {"title": text[:300], "agent_type": "echo"})
    run = server.request("/api/runs?wait=30", {"input": HOSTILE_TEXTS[0], "agent_type": "asker"})
    page = await open_page(f"{server.url}/console/threads")
    await page.wait_for_selector(".thread")
    await assert_harmless(page)
    await page.goto(f"{server.url}/console/inbox")
    await page.wait_for_selector(".ask")
    await assert_harmless(page)
    server.request(f"/api/runs/{run['id']}/cancel", {}, method="POST")


async def test_the_policy_forbids_html_from_text_and_other_servers(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/threads", expected="TrustedHTML")
    assert await page.evaluate(_SET_HTML) == "TypeError"
    assert await page.evaluate("document.querySelectorAll('script:not([src])').length") == 0


async def test_a_tool_result_is_text(server: Server, open_page: OpenPage) -> None:
    body = {"input": "x", "agent_type": "asker"}
    run = server.request("/api/runs?wait=30", body)
    (question,) = [each for each in server.request("/api/interrupts")["items"] if each["run_id"] == run["id"]]
    denied = {"decision": "deny", "reason": "<img src=x onerror=window.pwned=1>"}
    answer = {"response": denied, "interrupt_id": question["id"], "digest": question["digest"]}
    server.request(f"/api/runs/{run['id']}/respond", answer)
    server.request(f"/api/runs/{run['id']}?wait=30")
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}?side=log")
    await page.wait_for_selector(".raw li")
    await until(lambda: _shows(page, "onerror"))
    await assert_harmless(page)


_ATTACK = """async url => {
    const [threads, ...others] = await Promise.all([
        fetch(url + '/api/threads', {credentials: 'include'}).then(answer => answer.text(), () => 'refused'),
        ...['text/plain', 'application/json'].map(type => fetch(url + '/api/runs', {method: 'POST', mode: 'no-cors',
            credentials: 'include', headers: {'Content-Type': type},
            body: '{"input": "from outside", "agent_type": "echo"}'}).then(() => 'sent', () => 'refused')),
        new Promise(done => { const socket = new WebSocket(url.replace('http', 'ws') + '/ws')
            socket.onopen = () => done('open'); socket.onclose = () => done('closed') }),
        new Promise(done => { const frame = document.createElement('iframe'); frame.name = 'target'
            frame.onload = () => done('loaded'); document.body.append(frame)
            const form = document.createElement('form'); form.target = 'target'; form.method = 'post'
            form.action = url + '/api/runs'; form.enctype = 'text/plain'
            const field = document.createElement('input')
            field.name = '{"input": "from outside", "agent_type": "echo", "tags": ["'; field.value = '"]}'
            form.append(field); document.body.append(form); form.submit() }),
    ])
    return [threads, others[2]] }"""


async def assert_another_origin_is_powerless(context: "BrowserContext", server: Server, **headers: str) -> None:
    """Assert that a page of the same host, but of another port, can neither read nor act: cookies know no ports."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Another site</h1>")
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    page = await context.new_page()
    await page.goto(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/")
    assert await page.evaluate(_ATTACK, server.url) == ["refused", "closed"]
    await page.close()
    other.close()
    runs = server.request("/api/runs?limit=50", headers=headers)["items"]
    assert [run["id"] for run in runs if run["input"] == "from outside"] == []


async def test_a_page_of_another_site_can_neither_read_nor_act(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/threads")
    await assert_another_origin_is_powerless(page.context, server)


_LEAKS = """<h1>Flour</h1><style>@import 'URL/css'; p { background: url(URL/background) }</style>
<script>parent.pwned = 1; fetch('URL/script')</script><p>Rye</p><img src="URL/picture"><iframe src="URL/frame"></iframe>
<link rel="preconnect" href="URL"><link rel="prefetch" href="URL/prefetch"><link rel="stylesheet" href="URL/sheet">
<meta http-equiv="refresh" content="0;url=URL/refresh"><form action="URL/form"><button>send</button></form>
<a href="URL/link">link</a> <a href="URL/top" target="_top">top</a> <a href="#" ping="URL/ping">ping</a>"""


async def test_a_preview_of_a_page_runs_and_loads_nothing(server: Server, open_page: OpenPage) -> None:
    calls = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(await reader.readline())
        writer.close()

    outside = await asyncio.start_server(note, "127.0.0.1", 0)
    leaks = _LEAKS.replace("URL", f"http://127.0.0.1:{outside.sockets[0].getsockname()[1]}")
    run = server.request("/api/runs?wait=30", {"input": "x", "agent_type": "echo"})
    body = {"type": "doc", "title": "page", "media_type": "text/html", "content": leaks + "\n".join(HOSTILE_TEXTS)}
    server.request(f"/api/runs/{run['id']}/artifacts", body)
    refused = "Content Security Policy|sandbox|Unsafe attempt"
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}?side=artifacts", expected=refused)
    await page.get_by_role("button", name="Open page").click()
    await page.wait_for_selector("dialog pre:has-text('preconnect')")
    frame = page.frame_locator("dialog iframe")
    for name in ("send", "ping", "top", "link"):
        await page.get_by_role("button", name="Source").click()
        await page.get_by_role("button", name="Preview").click()
        await frame.locator("h1").first.wait_for()
        await frame.get_by_text(name, exact=True).first.click()
    assert await page.evaluate("document.querySelector('dialog iframe').contentDocument") is None
    assert await page.get_attribute("dialog iframe", "sandbox") == ""
    assert await page.evaluate("window.pwned") is None
    assert page.url.startswith(server.url) and len(page.context.pages) == 1
    assert calls == []
    outside.close()


async def _shows(page: "Page", text: str) -> bool:
    return text in await page.inner_text("main")
