"""An S3 store of which only the listing is real: folders of empty-handed objects that nobody has stored.

It answers what a read-only mount asks: ListObjectsV2 with the delimiter, and HEAD. Fast enough for a million objects,
which no real store on a laptop can be filled with in reasonable time.
"""

import multiprocessing
import re
import socket
import socketserver
import time
import urllib.parse

DATE = b"Date: Mon, 30 Nov 2026 12:00:00 GMT\r\n"
HEAD = (b"HTTP/1.1 200 OK\r\n" + DATE + b"Last-Modified: Sun, 29 Nov 2026 12:00:00 GMT\r\nETag: \"0123456789abcdef\"\r\n"
        b"x-amz-meta-mtime: 1700000000.123456789\r\nContent-Length: 10\r\n\r\n")
MISSING = b"HTTP/1.1 404 Not Found\r\n" + DATE + b"Content-Length: 0\r\n\r\n"


NO_KEY = b"<Error><Code>NoSuchKey</Code></Error>"


class ListingServer:
    """`folders` prefixes with `files` objects of 10 bytes each."""

    bucket = "docsfs"

    def __init__(self, folders, files):
        self.counter = multiprocessing.Value("Q", 0)
        self.server = Server(folders, files, self.counter)
        self.keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}

    def __enter__(self):
        # A process of its own: it must not share an interpreter with what measures.
        self.process = multiprocessing.Process(target=self.server.serve_forever, daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.join()
        self.server.server_close()

    def url(self, prefix):
        host, port = self.server.server_address
        return f"s3://{self.bucket}?endpoint=http://{host}:{port}&region=us-east-1&path_style=1"

    def requests(self):
        return self.counter.value

    def until_quiet(self):
        """Seconds until the last request before two seconds without any."""
        began = last = time.monotonic()
        seen = self.requests()
        while time.monotonic() < last + 2:
            time.sleep(0.05)
            if self.requests() != seen:
                seen, last = self.requests(), time.monotonic()
        return last - began


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folders, files, counter):
        super().__init__(("127.0.0.1", 0), Connection)
        self.folders, self.files, self.counter = folders, files, counter


class Connection(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting = b""
        while part := self.request.recv(65536):
            *requests, waiting = (waiting + part).split(b"\r\n\r\n")
            for request in requests:
                with self.server.counter.get_lock():
                    self.server.counter.value += 1
                method, target, _ = request.split(b" ", 2)
                self.request.sendall(self.head(target) if method == b"HEAD" else self.page(target.decode()))

    def head(self, target):
        return HEAD if re.search(rb"/d\d+/f\d+$", target) else MISSING

    def page(self, target):
        parts = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(parts.query))
        if "list-type" not in query:
            return MISSING.replace(b": 0", b": %d" % len(NO_KEY)) + NO_KEY
        prefix, most, start = query.get("prefix", ""), int(query["max-keys"]), int(query.get("continuation-token", 0))
        folder = re.fullmatch(r"d(\d+)/", prefix)
        if folder and int(folder[1]) < self.server.folders:
            count, item = self.server.files, (
                f"<Contents><Key>{prefix}f%04d</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified>"
                "<ETag>&#34;0123456789abcdef&#34;</ETag><Size>10</Size></Contents>")
        else:
            count = 0 if prefix else self.server.folders
            item = "<CommonPrefixes><Prefix>d%04d/</Prefix></CommonPrefixes>"
        end = min(count, start + most)
        next_token = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < count else ""
        body = (f"<ListBucketResult><IsTruncated>{'true' if next_token else 'false'}</IsTruncated>{next_token}"
                + "".join(item % number for number in range(start, end)) + "</ListBucketResult>").encode()
        return b"HTTP/1.1 200 OK\r\n" + DATE + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
