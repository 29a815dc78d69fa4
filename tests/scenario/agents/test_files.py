"""Agents read, edit and write files in their folder."""

from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from tests.scenario.agents.workshop import Workshop, call, calling, say

FILE_TOOLS = ["read_file", "write_file", "edit_file", "list_dir", "glob", "grep"]


async def test_an_agent_reads_edits_and_writes_files(anywhere: Workshop) -> None:
    anywhere.write("files/src/main.py", 'print("helo")\n')
    anywhere.write("files/README.md", "# A project\n")
    anywhere.agent(
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
    async with anywhere.open() as floor:
        run = await floor.play()
        results = [str(message.content) for message in await floor.messages(run) if message.role is Role.TOOL]
        changes = await floor.told(run, FileChanged)
    assert run.status is RunStatus.COMPLETED
    assert results[:3] == [
        "README.md 12\nsrc/\n[2 entries in `.`]",
        "src/main.py\n[1 file]",
        'src/main.py:1:print("helo")\n[1 line in 1 file]',
    ]
    files = anywhere.folder / "files"
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


async def test_files_read_by_a_run_may_be_edited_by_the_next_run_of_the_thread(workshop: Workshop) -> None:
    workshop.write("files/a", "one\n")
    workshop.agent(calling(call("read_file", path="a")), say("read"), tools=FILE_TOOLS)
    async with workshop.open() as floor:
        first = await floor.play()
        workshop.script(calling(call("edit_file", path="a", old="one", new="two")), say("edited"))
        await floor.play(thread=first.thread_id)
    assert (workshop.folder / "files/a").read_text() == "two\n"


async def test_each_agent_works_in_its_own_folder(workshop: Workshop) -> None:
    workshop.agent(calling(call("write_file", path="a", content="1")), say("done"), tools=FILE_TOOLS)
    workshop.configure(tools=FILE_TOOLS, working_folder="projects/site")
    async with workshop.open() as floor:
        await floor.play()
    assert (workshop.folder / "projects/site/a").read_text() == "1"
    assert not (workshop.folder / "files").exists()


async def test_the_files_of_the_workspace_itself_cannot_be_accessed(workshop: Workshop) -> None:
    workshop.write("settings.json", {})
    paths = [
        "../settings.json",
        "../agents/bot/agent.json",
        str(workshop.folder / "settings.json"),
        "link/settings.json",
    ]
    workshop.agent(
        calling(*(call("read_file", path=path) for path in paths)),
        calling(*(call("write_file", path=path, content="x") for path in paths)),
        say("done"),
        tools=FILE_TOOLS,
    )
    (workshop.folder / "files").mkdir()
    (workshop.folder / "files" / "link").symlink_to("..")
    async with workshop.open() as floor:
        run = await floor.play()
        results = [message for message in await floor.messages(run) if message.role is Role.TOOL]
        assert await floor.told(run, FileChanged) == []
    assert [result.metadata.get("failed") for result in results] == ["failed"] * 8
    assert (workshop.folder / "settings.json").read_text() == "{}"
