"""Ports that nothing listens on."""

import random
import socket

LISTENING = range(12_000, 32_000)
"""Below what the kernel gives to connections, any of which might take a port before its service listens on it."""


def free_ports(count):
    """That many different free ports of the loopback address."""
    ports = []
    while len(ports) < count:
        port = random.SystemRandom().choice(LISTENING)
        with socket.socket() as held:
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
