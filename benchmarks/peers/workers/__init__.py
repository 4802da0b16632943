"""One module a peer; each runs in that peer's environment and may import nothing of the project but its neighbours."""
