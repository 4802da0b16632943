"""Forerun on Ray: where replicas are placed, that they run again when they end, and where they are found."""
