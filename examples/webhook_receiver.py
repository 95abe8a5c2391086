"""Receive webhooks on a port of localhost, and accept only signed webhooks.

    WEBHOOK_SECRET=whsec_… python examples/webhook_receiver.py 8080

The program needs the package standardwebhooks. A webhook may arrive twice, with the same webhook-id.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

if not os.environ.get("WEBHOOK_SECRET"):
    sys.stderr.write(
        "WEBHOOK_SECRET is not set: set WEBHOOK_SECRET to the secret that `shardclock endpoints add` has printed\n"
    )
    sys.exit(2)
webhook, seen = Webhook(os.environ["WEBHOOK_SECRET"]), set()


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # with HTTP/1.1 the connection stays open for the next webhook

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            fired = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)
            return
        if (
            self.headers["webhook-id"] not in seen
        ):  # in production use a table, in the transaction of the changes that the webhook causes
            print(fired["type"], fired["data"], flush=True)
            seen.add(self.headers["webhook-id"])
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
