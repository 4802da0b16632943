"""The wire: values ⇄ messages, errors ⇄ status codes, the server shell and the client streams."""
