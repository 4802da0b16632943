"""What can be seen from outside: traces, metrics and logs, each described in one place."""
