"""Replicas and workers as processes on one PostgreSQL and one NATS server, and the faults that can befall them.

    clients ──► 3 × `holdfast serve --workers 0` ◄── a proxy for each worker ◄── 8 × `holdfast worker`
                      │           │
                  PostgreSQL     NATS

A process that ends is started again, as a supervisor would.
"""

import asyncio
import signal
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from holdfast.concurrency import cancel_and_wait
from tests.scenario.rpc_proxy import FAULTS as RPC_FAULTS
from tests.scenario.rpc_proxy import RpcFault, RpcProxy, open_rpc_proxy
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer
from tests.support.warm_commands import Command, WarmCommands

REPLICAS: Final = 3
WORKERS: Final = 8
CONCURRENCY: Final = 4
"""Runs at a time of each worker."""
MAX_DOWN_SECONDS: Final = 1.0
"""The longest time until an ended process is started again."""
LEASE_SECONDS: Final = 5.0
START_TIMEOUT_SECONDS: Final = 60.0


class Member:
    """A process of the cluster, which is started again whenever it ends."""

    def __init__(self, start: Callable[[], Command], random: Random) -> None:
        self._start = start
        self._random = random
        self.command: Command | None = start()
        """`None` while it is down."""

    async def keep_running(self) -> None:
        """Start it again until cancelled."""
        while True:
            if self.command is not None:
                await self.command.wait()
                ended, self.command = self.command, None
                ended.close()
            await asyncio.sleep(self._random.uniform(0, MAX_DOWN_SECONDS))
            self.command = self._start()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it is down."""
        if self.command is not None:
            self.command.send_signal(number)

    async def freeze(self, seconds: float) -> None:
        """Stop the process without ending it, and let it continue after some seconds."""
        self.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Shut it down for good."""
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGTERM)
        if self.command is not None:
            await self.command.wait()
            self.command.close()


class Cluster:
    """The processes, and faults of them. Each fault returns once its cause is over, not its consequences."""

    def __init__(
        self, postgres: PostgresServer, nats: NatsServer, *, outage_seconds: float, random: Random, hosts: Sequence[str]
    ) -> None:
        self.hosts = hosts
        """Host and port of each replica."""
        self.replicas: list[Member] = []
        self.workers: list[Member] = []
        self.proxies: list[RpcProxy] = []
        self.rpc_faults = deque[RpcFault]()
        """Faults of the next requests of any worker."""
        self.random = random
        self._postgres = postgres
        self._nats = nats
        self._outage_seconds = outage_seconds
        self._postgres_lock = asyncio.Lock()
        self._nats_lock = asyncio.Lock()

    async def kill_replica(self) -> None:
        """Kill a replica."""
        (await self._any(self.replicas)).send_signal(signal.SIGKILL)

    async def stop_replica(self) -> None:
        """Shut a replica down, as a new release does."""
        (await self._any(self.replicas)).send_signal(signal.SIGTERM)

    async def freeze_replica(self) -> None:
        """Stop a replica for some time, and let it continue."""
        await (await self._any(self.replicas)).freeze(self.random.uniform(0.5, 3))

    async def kill_worker(self) -> None:
        """Kill a worker."""
        (await self._any(self.workers)).send_signal(signal.SIGKILL)

    async def stop_worker(self) -> None:
        """Shut a worker down, as a new release does."""
        (await self._any(self.workers)).send_signal(signal.SIGTERM)

    async def freeze_worker(self) -> None:
        """Stop a worker until its leases have expired, and let it continue."""
        await (await self._any(self.workers)).freeze(LEASE_SECONDS + self.random.uniform(0, 1))

    async def cut_worker(self) -> None:
        """Cut a worker off until its leases have expired."""
        await self.random.choice(self.proxies).cut(LEASE_SECONDS + self.random.uniform(0, 1))

    async def cut_all_workers(self) -> None:
        """Cut all workers off for a short time."""
        await asyncio.gather(*(proxy.cut(self.random.uniform(0.1, 2)) for proxy in self.proxies))

    async def fault_request(self) -> None:
        """Lose, delay or repeat a request of a worker."""
        fault = self.random.choice(RPC_FAULTS)
        self.rpc_faults.append(fault)
        while fault in self.rpc_faults:  # noqa: ASYNC110 - proxies set no event
            await asyncio.sleep(0.02)

    async def kill_nats(self) -> None:
        """Kill the NATS server, and start it again."""
        async with self._nats_lock:
            self._nats.kill()
            await asyncio.sleep(self.random.uniform(0, 2))
            await self._nats.start()

    async def freeze_nats(self) -> None:
        """Stop the NATS server for some time, and let it continue."""
        async with self._nats_lock:
            self._nats.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.random.uniform(0.5, 3))
            self._nats.send_signal(signal.SIGCONT)

    async def stop_postgres(self) -> None:
        """Kill PostgreSQL or shut it down, and start it again after some time."""
        async with self._postgres_lock:
            await self.random.choice([self._postgres.kill, self._postgres.stop])()
            await asyncio.sleep(self._outage_seconds)
            await self._postgres.start()
            await asyncio.sleep(self._outage_seconds / 2)  # in a row, outages would leave no time to work

    async def _any(self, members: Sequence[Member]) -> Member:
        """Return a member that is up."""
        while not (running := [each for each in members if each.command is not None]):  # noqa: ASYNC110 - they set no event
            await asyncio.sleep(0.02)
        return self.random.choice(running)

    async def wait_until_ready(self) -> None:
        """Wait until each replica accepts connections."""
        for host in self.hosts:
            address, port = host.split(":")
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                while True:
                    with suppress(OSError):
                        (await asyncio.open_connection(address, int(port)))[1].close()
                        break
                    await asyncio.sleep(0.02)


FAULTS: Final[Mapping[str, Callable[[Cluster], Awaitable[None]]]] = {
    name: getattr(Cluster, name)
    for name in (
        "kill_replica",
        "stop_replica",
        "freeze_replica",
        "kill_worker",
        "stop_worker",
        "freeze_worker",
        "cut_worker",
        "cut_all_workers",
        "fault_request",
        "kill_nats",
        "freeze_nats",
        "stop_postgres",
    )
}


@asynccontextmanager
async def run_cluster(
    folder: Path, database: str, postgres: PostgresServer, nats: NatsServer, *, outage_seconds: float, random: Random
) -> AsyncIterator[Cluster]:
    """Run a cluster on the workspace in a folder while the block runs; its logs are in the folder."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(REPLICAS)]
    cluster = Cluster(postgres, nats, outage_seconds=outage_seconds, random=random, hosts=hosts)
    async with AsyncExitStack() as stack:
        commands = await stack.enter_async_context(WarmCommands())

        def member(name: str, *arguments: str) -> Member:
            log = folder / f"{name}.log"
            return Member(lambda: commands.start(*arguments, "--quiet", folder=folder, log=log), random)

        for number, host in enumerate(hosts):
            place = ("--workspace", "workspace", "--port", host.partition(":")[2], "--workers", "0")
            options = ("--database", database, "--bus", nats.url())
            cluster.replicas.append(member(f"replica-{number}", "serve", *place, *options))
        await cluster.wait_until_ready()
        for number in range(WORKERS):
            urls, pending = [f"http://{host}" for host in hosts], cluster.rpc_faults
            proxy = await stack.enter_async_context(open_rpc_proxy(urls, random, pending=pending))
            cluster.proxies.append(proxy)
            connect = ("--url", proxy.url, "--folder", f"worker-{number}", "--concurrency", str(CONCURRENCY))
            cluster.workers.append(member(f"worker-{number}", "worker", *connect))
        members = [*cluster.workers, *cluster.replicas]
        supervising = [asyncio.ensure_future(each.keep_running()) for each in members]
        try:
            yield cluster
        finally:
            await cancel_and_wait(supervising)
            await asyncio.gather(*(each.stop() for each in members))


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
