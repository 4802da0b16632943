"""Notices a service that hangs: its process lives, and its health says no, or nothing."""

import asyncio
from collections.abc import Awaitable, Callable

EVERY_S, TIMEOUT_S = 10.0, 5.0
MISSES = 3
"""In a row: a busy machine may be late once."""


async def until_lost(is_well: Callable[[], Awaitable[bool]]) -> None:
    """Returns when the service was not found well MISSES times in a row."""
    num_missed = 0
    while num_missed < MISSES:
        await asyncio.sleep(EVERY_S)
        num_missed = 0 if await is_well() else num_missed + 1


async def is_serving(address: str) -> bool:
    """What gRPC health at `address` says within TIMEOUT_S."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with grpc.aio.insecure_channel(address) as channel:
        asking = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        try:
            return bool((await asking).status == health_pb2.HealthCheckResponse.SERVING)
        except grpc.RpcError:
            return False
