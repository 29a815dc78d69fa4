"""A thread, a run, a worker that is killed in the middle of it, and what is there afterwards.

    python examples/log_demo.py

The worker is a process of its own. It commits every word before it shows it, and kills itself with SIGKILL half way.
A second worker opens the same file, finds the run where it was left, and goes on.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Final

from holdfast import Commit, Lease, Move, NewMessage, NewRun, NewThread, Role, RunStatus, Store, Stream, open_store
from holdfast.domain.events import Event, RunFinished, TextMessageContent, TextMessageStart, decode
from holdfast.domain.events.custom import Abandoned, to_custom
from holdfast.domain.ids import MessageId, OwnerId, SpaceId
from holdfast.domain.instant import Millis

SPACE: Final = SpaceId("default")
QUESTION: Final = "What do you promise?"
ANSWER: Final = "Nothing is lost, nothing is done twice, and you can always see why."
LAST_WORDS: Final = 6
"""How many words the first worker says before it dies."""


async def show() -> None:
    """Create a run, let a worker die over it, let another finish it, and print what was kept."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = Path(folder) / "holdfast.db"
        async with open_store(path) as store:
            await store.spaces.create(SPACE, name="Default")
            thread = await store.threads.create(SPACE, NewThread(title="A demonstration"))
            asked = NewMessage(role=Role.USER, content=QUESTION)
            run = (await store.runs.create(SPACE, NewRun(thread=thread.id, messages=[asked]))).run
            print(f"1. A run is created in one SQLite file: {run.id} is {run.status}.")

        print("2. A worker answers it, in a process of its own:\n")
        await _worker(path, "--die-after", str(LAST_WORDS))
        async with open_store(path, read_only=True) as store:
            left = await store.runs.get(SPACE, run.id)
        print("\n\n   … and is killed with SIGKILL.")
        print(f"   The file has {left.last_event_seq} events. The run is {left.status}: nobody has let go of it.")

        print("3. Another worker opens the file, which frees the run at once, and goes on:\n")
        await _worker(path)
        async with open_store(path, read_only=True) as store:
            print("\n\n4. The whole log, as every stream replays it:\n")
            for event in await store.events.after(SPACE, run.id):
                print(f"   {event.seq:3}  {event.data.decode()}")
            print("\n5. The conversation:\n")
            for message in await store.messages.history(SPACE, run.id):
                print(f"   {message.sequence:3}  {message.role}: {message.content}")


async def work(path: Path, die_after: int | None) -> None:
    """Claim a run and answer it word by word; each word is on disk before it is shown."""
    async with open_store(path) as store:
        (lease,) = await store.leases.claim(OwnerId(f"process-{os.getpid()}"), lease=timedelta(seconds=10))
        stream = await _take_over(store, lease)
        message = MessageId(f"{lease.run_id}-answer-{lease.run.attempt}")
        await _log(store, lease, stream, TextMessageStart(message_id=message, role="assistant"))
        print("   ", end="", flush=True)
        for number, word in enumerate(ANSWER.split(), start=1):
            await _log(store, lease, stream, TextMessageContent(message_id=message, delta=f"{word} "))
            print(word, end=" ", flush=True)
            if number == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
        said = NewMessage(id=message, role=Role.ASSISTANT, content=ANSWER)
        events = stream.end(RunFinished(thread_id=lease.thread_id, run_id=lease.run_id), at=_now())
        move = Move(to=RunStatus.COMPLETED, output=ANSWER)
        await store.journal.commit(Commit(lease=lease, events=events, messages=[said], move=move))


async def _take_over(store: Store, lease: Lease) -> Stream:
    """Rebuild the stream from the log; what a dead worker left open is closed, and said to be abandoned."""
    logged = await store.events.after(SPACE, lease.run_id)
    stream = Stream.resume(lease.thread_id, lease.run_id, [decode(event.data) for event in logged])
    closing = stream.close(at=_now())
    if closing:
        dead = MessageId(f"{lease.run_id}-answer-{lease.run.attempt - 1}")
        abandoned = to_custom(Abandoned(message_ids=[dead], through=logged[-1].seq))
        events = [*closing, *stream.feed(abandoned, at=_now())]
        await store.journal.commit(Commit(lease=lease, events=events))
    return stream


async def _log(store: Store, lease: Lease, stream: Stream, event: Event) -> None:
    await store.journal.commit(Commit(lease=lease, events=stream.feed(event, at=_now())))


async def _worker(path: Path, *arguments: str) -> None:
    worker = await asyncio.create_subprocess_exec(sys.executable, __file__, "--work", str(path), *arguments)
    await worker.wait()


def _now() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


def main() -> None:
    """Be the demonstration, or one of its workers."""
    parser = argparse.ArgumentParser(description="Show that a run survives its worker.")
    parser.add_argument("--work", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--die-after", type=int, metavar="WORDS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asyncio.run(show() if arguments.work is None else work(arguments.work, arguments.die_after))


if __name__ == "__main__":
    main()
