"""Agents read, edit and write files in their folder."""

from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

FILE_TOOLS = ["read_file", "write_file", "edit_file", "list_dir", "glob", "grep"]


async def test_an_agent_reads_edits_and_writes_files(any_workspace: AgentWorkspace) -> None:
    any_workspace.write("files/src/main.py", 'print("helo")\n')
    any_workspace.write("files/README.md", "# A project\n")
    any_workspace.agent(
        calling(call("list_dir"), call("glob", pattern="**/*.py"), call("grep", pattern="helo")),
        calling(call("read_file", path="src/main.py"), call("read_file", path="README.md")),
        calling(
            call("edit_file", path="src/main.py", old="helo", new="hello"),
            call("write_file", path="README.md", content="# A project\n\nIt says hello.\n"),
            call("write_file", path="docs/new.md", content="New.\n"),
        ),
        say("done"),
        tools=FILE_TOOLS,
    )
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        results = [str(message.content) for message in await runtime.messages(run) if message.role is Role.TOOL]
        changes = await runtime.custom_events(run, FileChanged)
    assert run.status is RunStatus.COMPLETED
    assert results[:3] == [
        "README.md 12\nsrc/\n[2 entries in `.`]",
        "src/main.py\n[1 file]",
        'src/main.py:1:print("helo")\n[1 line in 1 file]',
    ]
    files = any_workspace.folder / "files"
    assert (files / "src/main.py").read_text() == 'print("hello")\n'
    assert (files / "README.md").read_text() == "# A project\n\nIt says hello.\n"
    assert (files / "docs/new.md").read_text() == "New.\n"
    assert [(change.path, change.action) for change in changes] == [
        ("src/main.py", FileAction.CHANGED),
        ("README.md", FileAction.CHANGED),
        ("docs/new.md", FileAction.CREATED),
    ]
    assert changes[0].diff == (
        '--- a/src/main.py\n+++ b/src/main.py\n@@ -1,1 +1,1 @@\n-print("helo")\n+print("hello")\n'
    )


async def test_files_read_by_a_run_may_be_edited_by_the_next_run_of_the_thread(workspace: AgentWorkspace) -> None:
    workspace.write("files/a", "one\n")
    workspace.agent(calling(call("read_file", path="a")), say("read"), tools=FILE_TOOLS)
    async with workspace.open() as runtime:
        first = await runtime.run_to_end()
        workspace.script(calling(call("edit_file", path="a", old="one", new="two")), say("edited"))
        await runtime.run_to_end(thread=first.thread_id)
    assert (workspace.folder / "files/a").read_text() == "two\n"


async def test_each_agent_works_in_its_own_folder(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("write_file", path="a", content="1")), say("done"), tools=FILE_TOOLS)
    workspace.configure(tools=FILE_TOOLS, working_folder="projects/site")
    async with workspace.open() as runtime:
        await runtime.run_to_end()
    assert (workspace.folder / "projects/site/a").read_text() == "1"
    assert not (workspace.folder / "files").exists()


async def test_the_files_of_the_workspace_itself_cannot_be_accessed(workspace: AgentWorkspace) -> None:
    workspace.write("settings.json", {})
    paths = [
        "../settings.json",
        "../agents/bot/agent.json",
        str(workspace.folder / "settings.json"),
        "link/settings.json",
    ]
    workspace.agent(
        calling(*(call("read_file", path=path) for path in paths)),
        calling(*(call("write_file", path=path, content="x") for path in paths)),
        say("done"),
        tools=FILE_TOOLS,
    )
    (workspace.folder / "files").mkdir()
    (workspace.folder / "files" / "link").symlink_to("..")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        results = [message for message in await runtime.messages(run) if message.role is Role.TOOL]
        assert await runtime.custom_events(run, FileChanged) == []
    assert [result.metadata.get("failed") for result in results] == ["failed"] * 8
    assert (workspace.folder / "settings.json").read_text() == "{}"
