"""Clients that others wrote, each in an environment of its own, against a running gateway."""
