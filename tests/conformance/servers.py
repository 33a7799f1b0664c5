"""Real servers to stand behind the proxy, none of them a part of it."""

import array
import asyncio
import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from concurrent import futures

import grpc
import websockets
from websockets.asyncio.server import serve as serve_websockets

from harness import CACHE, HERE, Failure, background, clean_environment, ensure, free_port, stop, wait_until

NGINX = """
daemon off; error_log {folder}/error.log; pid {folder}/nginx.pid; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; default_type application/octet-stream;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    root {folder}/files;
    location /ranges/ {{ alias {folder}/files/; }}
  }}
}}
"""


@functools.cache
def counted(size):
    """The body of `size` bytes that the origins send: big-endian numbers from 0, four bytes each."""
    numbers = array.array("I", range((size + 3) // 4))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()[:size]


@functools.cache
def digest(size):
    """The hash of `counted(size)`."""
    return hashlib.sha256(counted(size)).hexdigest()


@contextlib.contextmanager
def nginx(folder, certificate, key, sizes):
    """nginx with TLS, HTTP/1.1 and HTTP/2, and a file of each size; gives its port."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    files = pathlib.Path(folder) / "files"
    files.mkdir()
    for size in sizes:
        (files / str(size)).write_bytes(counted(size))
    port = free_port()
    config = pathlib.Path(folder) / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(NGINX.format(folder=folder, port=port, certificate=certificate, key=key, user=user))
    log = pathlib.Path(folder) / "nginx.log"
    with background([program, "-e", "stderr", "-c", config], log=log) as process:
        wait_until(lambda: listening(process, port, log), "nginx listens")
        yield port


def listening(process, port, log):
    ensure(process.poll() is None, f"the server ended: {log.read_text()}")
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def node_origin(certificate, key):
    """The Node server of clients/node/origin.mjs; gives its port."""
    script = CACHE / "node" / "origin.mjs"
    script.write_bytes((HERE / "clients" / "node" / "origin.mjs").read_bytes())
    process = subprocess.Popen(
        [CACHE / "bin" / "node24", script, certificate, key],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        line = process.stdout.readline()
        ensure(line.strip().isdigit(), f"the Node origin did not start: {line!r}")
        yield int(line)
    finally:
        stop(process)
        process.stdout.close()


@contextlib.contextmanager
def websocket_echo(certificate, key):
    """A WebSocket echo over TLS; gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    ready, port, loop = threading.Event(), [], asyncio.new_event_loop()

    async def handle(connection):
        with contextlib.suppress(websockets.ConnectionClosed):
            async for message in connection:
                await connection.send(message)

    async def main():
        async with serve_websockets(handle, "127.0.0.1", 0, ssl=context, max_size=None) as server:
            port.append(server.sockets[0].getsockname()[1])
            ready.set()
            await stopped.wait()

    stopped = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    if not ready.wait(10):
        raise Failure("the WebSocket server did not start")
    try:
        yield port[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)


class Echo(grpc.GenericRpcHandler):
    """gRPC without generated code: messages are bytes. Trailers carry how many there were."""

    def service(self, details):
        if details.method == "/echo.Echo/Unary":
            return grpc.unary_unary_rpc_method_handler(self.unary)
        if details.method == "/echo.Echo/Bidi":
            return grpc.stream_stream_rpc_method_handler(self.bidi)
        if details.method == "/echo.Echo/Refuse":
            return grpc.unary_unary_rpc_method_handler(self.refuse)
        return None

    def unary(self, request, context):
        context.set_trailing_metadata((("seen", "1"),))
        return request

    def bidi(self, requests, context):
        seen = 0
        for request in requests:
            seen += 1
            yield request
        context.set_trailing_metadata((("seen", str(seen)),))

    def refuse(self, request, context):
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no nectar left")


@contextlib.contextmanager
def grpc_echo(certificate=None, key=None):
    """A gRPC server, over TLS with a certificate and in clear without; gives its port."""
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Echo()])
    if certificate:
        pair = pathlib.Path(key).read_bytes(), pathlib.Path(certificate).read_bytes()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(10)
