"""Calls of Ray's services by another user without a token: ``as_nobody.py [[ADDRESS, PORT, METHOD], ...]``.

A method that begins with a slash is a path of HTTP. The answer to each call is a status of HTTP or gRPC.
"""

import http.client
import json
import os
import re
import socket
import struct
import sys

NOBODY = 65534


def main(calls: str) -> None:
    """Become the user ``nobody``, and print the answers as JSON."""
    # Python's own files may be closed to that user.
    "localhost".encode("idna")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    print(json.dumps([answer(*call) for call in json.loads(calls)]))


def answer(address: str, port: int, method: str) -> str:
    """Return the status with which a method is answered."""
    if not method.startswith("/"):
        return call(address, port, method)
    connection = http.client.HTTPConnection(address, port)
    connection.request("POST", method, b"")
    return str(connection.getresponse().status)


def call(address: str, port: int, method: str) -> str:
    """Return the status of a call of gRPC with an empty message, written by hand (RFC 9113, RFC 7541)."""

    def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
        return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content

    def field(key: str, value: str) -> bytes:
        return b"\0" + bytes([len(key)]) + key.encode() + bytes([len(value)]) + value.encode()

    fields = {":method": "POST", ":scheme": "http", ":path": f"/ray.rpc.{method}", ":authority": "x"}
    fields |= {"content-type": "application/grpc", "te": "trailers"}
    headers = b"".join(field(key, value) for key, value in fields.items())
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, headers))
        connection.sendall(frame(0, 1, 1, b"\0" * 5))
        received = b""
        while (status := re.search(rb"grpc-status.(\d+)", received, re.DOTALL)) is None:
            more = connection.recv(65536)
            assert more, f"the connection ended: {received!r}"
            received += more
    return status[1].decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
