"""A WebSocket client of its own process, configured by the environment: websocket_client.py URL CA."""

import json
import os
import ssl
import sys

from websockets.sync.client import connect

url, ca = sys.argv[1:3]
context = ssl.create_default_context(cafile=ca) if url.startswith("wss:") else None
with connect(url, ssl=context, open_timeout=20, close_timeout=20, max_size=None) as connection:
    same = []
    for message in ("petal 花瓣", b"\x00\xff" * 10, os.urandom(1 << 20), "x" * 200_000):
        connection.send(message)
        same.append(connection.recv(timeout=20) == message)
    latency = connection.ping().wait(20)
    connection.close(4001, "enough")
print(json.dumps({"same": same, "pong": latency, "code": connection.protocol.close_code}))
