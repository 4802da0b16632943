"""A process that plays a service: `python -m tests.support.stand_in serve PORT | stubborn PORT | die TEXT`.

serve answers every HTTP request as a completion of one token and ends on SIGTERM; stubborn ignores SIGTERM;
die prints TEXT and exits with status 3.
"""

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers anything with one token."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"text": " Paris"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(role, argument):
    if role == "die":
        print(argument)
        sys.exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if role == "stubborn" else lambda *_: sys.exit(0))
    ThreadingHTTPServer(("127.0.0.1", int(argument)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
