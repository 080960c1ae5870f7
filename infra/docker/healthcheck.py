"""Asks the service of this container whether it is ready; exit status 0 if it is. Prints what it answers.

Run as `python -I -S healthcheck.py [PATH]`: it loads no packages, for it runs every few seconds. A process that does
its work answers /readyz with 200: its loop turns, it has read its log to the end, Kafka answers.
"""

import os
import socket
import sys

TIMEOUT_S = 2.0


def main() -> int:
    path = sys.argv[1] if len(sys.argv) > 1 else "/readyz"
    port = int(os.environ.get("HOLDFAST_METRICS_PORT") or 0)
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as asked:
            asked.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = b"".join(iter(lambda: asked.recv(65536), b""))
    except OSError as error:
        print(f"no answer at port {port}: {error}")
        return 1
    head, _, body = answer.partition(b"\r\n\r\n")
    print(body.decode(errors="replace").strip())
    return 0 if head.split()[1:2] == [b"200"] else 1


sys.exit(main())
