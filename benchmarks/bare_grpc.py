"""What gRPC itself costs here: the round trip of a bare bidirectional stream to another process, after a pause.

After a pause of milliseconds both processes sleep and their caches are cold, as between two messages of a round; a
round makes two such trips.
"""

import asyncio
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import grpc
import uvloop

PAYLOAD = b"x" * 100


async def round_trip_ms(num_trips: int = 60, pause_s: float = 0.03) -> float:
    """Median of `num_trips` round trips, each after `pause_s` of sleep."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    port = await asyncio.to_thread(ours.recv)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream("/bare/Echo")()
        trips = [await _trip(call, pause_s) for _ in range(num_trips + 5)][5:]
        await call.done_writing()
    process.kill()
    return round(1e3 * statistics.median(trips), 2)


async def _trip(call: Any, pause_s: float) -> float:
    await asyncio.sleep(pause_s)
    start = time.perf_counter()
    await call.write(PAYLOAD)
    await call.read()
    return time.perf_counter() - start


def _serve(port_to: Connection) -> None:
    uvloop.run(_echo(port_to))


async def _echo(port_to: Connection) -> None:
    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler("bare", {"Echo": grpc.stream_stream_rpc_method_handler(_answer)})
    server.add_generic_rpc_handlers((handler,))
    port_to.send(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await server.wait_for_termination()


async def _answer(_: Any, context: Any) -> None:
    eof: object = grpc.aio.EOF  # type: ignore[attr-defined]
    while (message := await context.read()) is not eof:
        await context.write(message)
