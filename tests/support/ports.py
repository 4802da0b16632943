"""Ports that nothing listens on."""

import socket


def free_ports(count):
    """That many different free ports of the loopback address."""
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports
