"""`forerun chat` streams answers, remembers the conversation and passes on the server's words."""

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forerun import chat, cli
from forerun.config import parse
from forerun.errors import ServiceUnavailable
from tests.support.ports import free_ports


class FakeGateway(BaseHTTPRequestHandler):
    """Streams "Hel" and "lo", or refuses the model "bad"."""

    def do_GET(self):
        self.server.keys.append(self.headers["Authorization"])
        self.answer(200, json.dumps({"data": [{"id": "tiny"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["Authorization"])
        if body["model"] == "bad":
            self.answer(404, json.dumps({"error": {"message": "no model bad"}}))
            return
        events = [{"choices": [{"delta": {"content": piece}}]} for piece in ("Hel", "lo")]
        events += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": []}]
        self.answer(200, "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway():
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeGateway)
    server.bodies, server.keys = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def config(gateway, **changes):
    return chat.ChatConfig(url=f"http://127.0.0.1:{gateway.server_port}", **changes)


def test_pieces_are_printed_and_earlier_turns_are_sent_again(gateway, capsys):
    messages = chat.talk(config(gateway, system="Be brief."), "tiny", ["Hi", "Again"])
    assert capsys.readouterr().out == "Hello\nHello\n"
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert gateway.bodies[1]["messages"] == messages[:4]


def test_the_first_model_served_is_taken(gateway):
    assert chat.first_model(config(gateway)) == "tiny"


def test_the_api_key_goes_with_every_request_and_without_one_nothing_does(gateway):
    for key, sent in (("sk-secret", "Bearer sk-secret"), ("", None)):
        keyed = config(gateway, api_key=key)
        chat.talk(keyed, chat.first_model(keyed), ["Hi"])
        assert gateway.keys == [sent, sent]
        gateway.keys.clear()


def test_the_api_key_may_come_from_the_environment():
    assert parse(chat.ChatConfig, [], "forerun chat", environ={"FORERUN_API_KEY": "sk"}).api_key == "sk"


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-sécret"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key, capsys):
    assert cli.main(["chat", "--api-key", key]) == 2
    message = capsys.readouterr().err
    assert "--api-key" in message
    assert "cret" not in message


def test_a_refusal_is_passed_on_in_the_servers_words(gateway):
    with pytest.raises(ServiceUnavailable, match="no model bad"):
        chat.talk(config(gateway), "bad", ["Hi"])


NO_HTTP = b"hello, this is no HTTP\r\n"
CUT_SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"
NO_JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<html>\n"
NO_LIST = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
NO_MODELS = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"data": []}'
STRANGE_EVENT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata: 1\n\n"
CUT_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata"


@pytest.fixture
def says():
    """Starts a server that answers anything with these bytes and closes; its URL."""
    listeners = []

    def start(answer):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("answer", [b"", NO_HTTP, CUT_SHORT, NO_JSON, NO_LIST, NO_MODELS, CUT_CHUNK])
def test_what_is_no_gateway_is_told_in_a_line(says, answer, capsys):
    assert chat.main(["--url", says(answer)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("forerun chat: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("answer", [b"", NO_HTTP, NO_JSON, STRANGE_EVENT, CUT_CHUNK])
def test_an_answer_that_breaks_off_is_told_in_a_line(says, answer):
    with pytest.raises(ServiceUnavailable):
        chat.talk(chat.ChatConfig(url=says(answer)), "tiny", ["Hi"])


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://", "http://[::", "http://host:port", "file:///etc/hosts"])
def test_an_address_that_is_none_says_what_would_be_one(url, capsys):
    assert cli.main(["chat", "--url", url]) == 2
    assert "such as http://127.0.0.1:8000" in capsys.readouterr().err


def test_without_a_gateway_the_way_out_is_named(capsys):
    assert chat.main(["--url", f"http://127.0.0.1:{free_ports(1)[0]}"]) == 1
    assert "forerun up" in capsys.readouterr().err
