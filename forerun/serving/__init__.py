"""What draft and target have in common: a stream is a sequence, a process is a device thread and a server."""
