"""`forerun chat` streams answers, remembers the conversation and passes on the server's words."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from forerun import chat
from forerun.errors import ServiceUnavailable
from tests.support.ports import free_ports


class FakeGateway(BaseHTTPRequestHandler):
    """Streams "Hel" and "lo", or refuses the model "bad"."""

    def do_GET(self):
        self.answer(200, json.dumps({"data": [{"id": "tiny"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
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
    server.bodies = []
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
    assert chat.first_model(config(gateway).url) == "tiny"


def test_a_refusal_is_passed_on_in_the_servers_words(gateway):
    with pytest.raises(ServiceUnavailable, match="no model bad"):
        chat.talk(config(gateway), "bad", ["Hi"])


def test_without_a_gateway_the_way_out_is_named(capsys):
    assert chat.main(["--url", f"http://127.0.0.1:{free_ports(1)[0]}"]) == 1
    assert "forerun up" in capsys.readouterr().err
