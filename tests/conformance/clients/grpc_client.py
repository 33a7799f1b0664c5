"""A gRPC client of its own process, because gRPC reads its proxy variables once: grpc_client.py TARGET [CA].

With a CA it speaks TLS. Prints one JSON line of what it saw.
"""

import json
import pathlib
import sys

import grpc

target, ca = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
if ca:
    channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes()))
else:
    channel = grpc.insecure_channel(target)
with channel:
    unary = channel.unary_unary("/echo.Echo/Unary")
    answer, call = unary.with_call(b"petal" * 20000, timeout=20)
    bidi = channel.stream_stream("/echo.Echo/Bidi")((f"message {number}".encode() for number in range(500)), timeout=20)
    messages = list(bidi)
    try:
        channel.unary_unary("/echo.Echo/Refuse")(b"", timeout=20)
        refused = None
    except grpc.RpcError as error:
        refused = [error.code().name, error.details()]
    print(
        json.dumps(
            {
                "unary": len(answer),
                "unary trailers": dict(call.trailing_metadata()),
                "messages": len(messages),
                "in order": messages == [f"message {number}".encode() for number in range(500)],
                "bidi trailers": dict(bidi.trailing_metadata()),
                "refused": refused,
            }
        )
    )
