"""Gives a plain WebDAV server the sync-collection report (RFC 6578), for tests: no server that keeps plain files and
that Debian or PyPI has reports changes of them, folders included.

    sync_collection.py UPSTREAM-URL FOLDER

FOLDER is what the server at UPSTREAM-URL serves. Everything but REPORT, and PROPFIND for DAV:sync-token, goes to it
unaltered. A token is the number of a snapshot of FOLDER, kept by this process. Prints its own URL.

POST /.switch?NAME=VALUE sets for the replies that follow: `page` (how many responses one has at most), `level` (the
deepest that is answered: infinity, 1, or none), `cut` (a reply ends after so many bytes), `status` (of every report),
`forget` (all tokens so far), `digest` (downloads carry Repr-Digest), `corrupt` and `short` (so many downloads are altered,
or end early). GET /.counts tells how often each method was used, with its depth or level.
"""

import base64
import collections
import hashlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

UPSTREAM = urllib.parse.urlsplit(sys.argv[1])
FOLDER = os.fsencode(sys.argv[2])
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection"}

lock = threading.Lock()
snapshots = []
switches = {"page": 0, "level": "infinity", "cut": 0, "status": 0, "forget": 0, "digest": 0, "corrupt": 0, "short": 0}
counts = collections.Counter()


def snapshot():
    """What is in FOLDER: a mark for each path; a folder's changes only when it is another one."""
    found = {}
    for folder, folders, files in os.walk(FOLDER):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                info = os.lstat(path)
            except FileNotFoundError:
                continue
            is_folder = name in folders
            mark = (info.st_ino,) if is_folder else (info.st_ino, info.st_mtime_ns, info.st_size)
            found[os.path.relpath(path, FOLDER)] = (is_folder, mark)
    return found


def new_token():
    with lock:
        snapshots.append(snapshot())
        return len(snapshots)


def url(path, is_folder=False):
    return "/" + urllib.parse.quote(path) + ("/" if is_folder and path else "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle_one_request(self):
        # Any method.
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length") or 0)
        kind = self.headers.get("Depth", "")
        if self.path.startswith("/.switch"):
            self.rfile.read(length)
            query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
            switches.update({name: value if name == "level" else int(value) for name, value in query.items()})
            if "forget" in query:
                switches["forget"] = len(snapshots)
            self.answer(204)
        elif self.path == "/.counts":
            self.answer(200, json.dumps(counts).encode())
        elif self.command == "REPORT":
            self.report(self.rfile.read(length))
        elif self.command == "PROPFIND" and kind == "0" and length < 4096:
            body = self.rfile.read(length)
            if b"sync-token" in body and switches["level"] != "none":
                counts["PROPFIND sync-token"] += 1
                self.tell_token()
            else:
                counts["PROPFIND 0"] += 1
                self.pass_on(length, body)
        else:
            counts[(self.command + " " + kind).strip()] += 1
            self.pass_on(length)

    def answer(self, status, body=b"", kind="application/xml; charset=utf-8"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = switches["cut"]
        if cut and status == 207:
            self.wfile.write(body[:cut])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def pass_on(self, length, body=None):
        upstream = http.client.HTTPConnection(UPSTREAM.hostname, UPSTREAM.port, timeout=60)
        try:
            headers = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP | {"expect"}}
            if "Destination" in headers:
                place = urllib.parse.urlsplit(headers["Destination"])
                headers["Destination"] = f"{UPSTREAM.scheme}://{UPSTREAM.netloc}{place.path}"
                headers["Host"] = UPSTREAM.netloc
            sent = body if body is not None else (self.rfile.read(length) if length else None)
            upstream.request(self.command, self.path, body=sent, headers=headers)
            reply = upstream.getresponse()
            found = reply.read()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in HOP_BY_HOP | {"content-length"}:
                    self.send_header(name, value)
            size = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(found))
            if size is not None and reply.status not in (204, 304):
                self.send_header("Content-Length", size)
            if self.command == "GET" and reply.status in (200, 206):
                self.add_digest()
                found = self.spoil(found)
            self.end_headers()
            self.wfile.write(found)
        finally:
            upstream.close()

    def add_digest(self):
        path = os.path.join(FOLDER, os.fsencode(urllib.parse.unquote(self.path).strip("/")))
        if switches["digest"] and os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).digest()
            self.send_header("Repr-Digest", f"sha-256=:{base64.b64encode(digest).decode()}:")

    def spoil(self, found):
        with lock:
            if found and switches["corrupt"]:
                switches["corrupt"] -= 1
                return bytes([found[0] ^ 1]) + found[1:]
            if found and switches["short"]:
                switches["short"] -= 1
                self.close_connection = True
                return found[:len(found) // 2]
        return found

    def tell_token(self):
        path = urllib.parse.unquote(self.path).strip("/")
        if not os.path.isdir(os.path.join(FOLDER, os.fsencode(path))):
            return self.answer(404)
        self.answer(207, f"""<?xml version="1.0"?><D:multistatus xmlns:D="DAV:"><D:response>
            <D:href>{escape(url(os.fsencode(path), True))}</D:href><D:propstat><D:prop>
            <D:resourcetype><D:collection/></D:resourcetype><D:sync-token>t:{new_token()}</D:sync-token></D:prop>
            <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>""".encode())

    def refuse(self, status, condition):
        self.answer(status, f'<D:error xmlns:D="DAV:"><D:{condition}/></D:error>'.encode())

    def report(self, body):
        request = ET.fromstring(body)
        token = (request.findtext("{DAV:}sync-token") or "").strip()
        level = request.findtext("{DAV:}sync-level")
        counts["REPORT " + level] += 1
        root = os.fsencode(urllib.parse.unquote(self.path).strip("/"))
        if switches["status"]:
            return self.answer(switches["status"])
        if switches["level"] == "none" or request.tag != "{DAV:}sync-collection":
            return self.refuse(403, "supported-report")
        if level == "infinite" and switches["level"] == "1":
            return self.refuse(403, "sync-traversal-supported")
        if not os.path.isdir(os.path.join(FOLDER, root)):
            return self.answer(404)
        number, _, after = token.removeprefix("t:").partition("+")
        is_first_cut = number == "0" and after
        if token and not is_first_cut:
            if not (number.isdigit() and switches["forget"] < int(number) <= len(snapshots)):
                return self.refuse(403, "valid-sync-token")
        # A cut reply goes on towards the state it began with: t:FROM+DONE+TO.
        done, _, end = after.partition("+")
        last = int(end) if end else new_token()
        changed = self.changes(root, int(number) if token else 0, last, level)
        page = switches["page"] or len(changed)
        first = int(done or 0)
        shown = changed[first:first + page]
        is_cut = first + page < len(changed)
        next_token = f"t:{number or 0}+{first + page}+{last}" if is_cut else f"t:{last}"
        parts = ['<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">']
        for path, is_there, is_folder in shown:
            href = escape(url(path, is_folder))
            if is_there:
                parts.append(f"<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:getetag>\"-\"</D:getetag>"
                             "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>")
            else:
                parts.append(f"<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 404 Not Found</D:status></D:response>")
        if is_cut:
            parts.append(f"<D:response><D:href>{escape(url(root, True))}</D:href><D:status>HTTP/1.1 507 Insufficient "
                         "Storage</D:status><D:error><D:number-of-matches-within-limits/></D:error></D:response>")
        parts.append(f"<D:sync-token>{next_token}</D:sync-token></D:multistatus>")
        self.answer(207, "".join(parts).encode())

    def changes(self, root, old, new, level):
        before = snapshots[old - 1] if old else {}
        after = snapshots[new - 1]
        prefix = root + b"/" if root else b""
        changed = []
        for path in sorted(before.keys() | after.keys()):
            if not path.startswith(prefix) or (level == "1" and b"/" in path[len(prefix):]):
                continue
            if before.get(path) != after.get(path):
                changed.append((path, path in after, (after.get(path) or before[path])[0]))
        return changed


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"container=webdav+http://127.0.0.1:{server.server_port}/", flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.5)
