"""One of several devices that write into one container, and the account of it afterwards.

  two_devices.py write FOLDER LOG DEVICE SEED SECONDS     works in FOLDER, a mount, and cuts its link at random
  two_devices.py compare FOLDER FOLDER…                   prints where the trees differ
  two_devices.py account FOLDER LOG…                      prints each edit that is lost, and each file that is damaged

A file is a sequence of records. A record has a tag, DEVICE-NUMBER, that no other has, and a body that follows from it:
a record that is torn or mixed with another shows. LOG has a line for each edit once the mount has answered it:
`ack` with the tag that was written, `gone` with the tags that the step took away.

An edit may be missing at the end only if a later step, which was answered, took its record away: one that had read the
record in the very file that it truncated, overwrote, replaced or removed. That is known exactly where the step works
on the handle that it has read from. unlink(2) and rename(2) go by name: where the file is another one after the step than
it was before the reading, its device may have taken an edit of the other one over in between. Such an edit was there to be
seen when it was taken away; the account counts it apart.
"""

import collections
import ctypes
import errno
import hashlib
import json
import os
import random
import stat
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE = 1
# What a step may be answered while the link is cut, or when the other device was faster.
EXPECTED = {errno.ENXIO, errno.EIO, errno.ESTALE, errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR,
            errno.EISDIR, errno.EINVAL, errno.EBUSY}


def record(tag, size):
    """A header `tag size`, a body of `size` bytes, and a line's end."""
    return f"{tag} {size}\n".encode() + random.Random(tag).randbytes(size) + b"\n"


def records(data):
    """The tags, places and lengths of the records in a file's bytes; raises ValueError where they are no records."""
    found, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at, at + 100)
        tag, size = data[at:end].decode("ascii").split(" ")
        whole = record(tag, int(size))
        if data[at:at + len(whole)] != whole:
            raise ValueError(f"damaged at {at}, in record {tag}")
        found.append((tag, at, len(whole)))
        at += len(whole)
    return found


def rename_to_free(old, new):
    """rename(2) that replaces nothing."""
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), RENAME_NOREPLACE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), old)


def read_whole(fd):
    parts, at = [], 0
    while part := os.pread(fd, 1 << 20, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def identity(fd):
    """Which item an open file is, and the version that the mount has of it. They change when the mount takes an edit of
    the other device over: handles keep what they have, the name leads elsewhere."""
    try:
        version = os.getxattr(fd, "user.docsfs.version")
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        version = None  # The container has it not yet.
    return os.fstat(fd).st_ino, version


Seen = collections.namedtuple("Seen", "identity data tags")


class Device:
    folders = ["", "a", "b", "a/c", "b/d"]
    names = [f"f{number}.txt" for number in range(12)]

    def __init__(self, folder, log, device, seed):
        self.folder, self.device = folder, device
        self.chance, self.cuts = random.Random(f"{seed} {device}"), random.Random(f"{seed} {device} link")
        self.log = open(log, "a", buffering=1)
        self.count = 0
        self.steps = [
            (40, self.append), (15, self.create), (4, self.rewrite), (6, self.overwrite), (10, self.save), (12, self.move),
            (3, self.replace), (5, self.remove), (3, self.make_folder), (4, self.move_folder), (2, self.remove_folder),
            (8, self.read), (3, self.evict), (2, self.touch),
        ]

    def note(self, **facts):
        self.log.write(json.dumps({"at": round(time.time(), 3), **facts}) + "\n")

    def run(self, seconds):
        weights, steps = zip(*self.steps)
        for folder in self.folders[1:]:
            os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
        ended = threading.Event()
        cutter = threading.Thread(target=self.cut, args=(ended,))
        cutter.start()
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                step = self.chance.choices(steps, weights)[0]
                try:
                    step()
                except OSError as error:
                    if error.errno not in EXPECTED:
                        raise
                    self.note(failed=step.__name__, errno=errno.errorcode[error.errno], path=str(error.filename))
                time.sleep(self.chance.expovariate(12))
        finally:
            ended.set()
            cutter.join()
            self.command("reconnect")

    def cut(self, ended):
        """The link is away a third of the time, for up to ten seconds at a time."""
        while not ended.wait(self.cuts.uniform(0, 20)):
            seconds = self.cuts.uniform(0, 10)
            self.note(cut=seconds)
            self.command(f"disconnect profile=cloud for={int(seconds * 1000)}ms")
            ended.wait(seconds)

    def command(self, line):
        fd = os.open(os.path.join(self.folder, ".docsfs/control"), os.O_WRONLY)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)

    # Places

    def any_folder(self):
        return self.chance.choice(self.folders)

    def any_place(self):
        return os.path.join(self.folder, self.any_folder(), self.chance.choice(self.names))

    def any_file(self):
        """A file that is there, conflict copies among them."""
        found = []
        for folder, inner, files in os.walk(self.folder):
            inner.sort()
            found += [os.path.join(folder, name) for name in sorted(files) if not name.startswith(".save")]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "nothing here", self.folder)
        # Both devices mean the same few files most of the time.
        return self.chance.choice(found[:8] if self.chance.random() < 0.4 else found)

    # Steps

    def new_record(self):
        self.count += 1
        size = self.chance.choice([0, 10, 200, 200, 3000]) if self.chance.random() < 0.97 else 300_000
        tag = f"{self.device}-{self.count}"
        return tag, record(tag, size)

    def put(self, fd, path, step, at=None):
        tag, data = self.new_record()
        self.write(fd, path, step, tag, data, at)

    def write(self, fd, path, step, tag, data, at=None):
        done = os.write(fd, data) if at is None else os.pwrite(fd, data, at)
        if done != len(data):
            raise RuntimeError(f"{path}: {done} of {len(data)} bytes written")
        self.note(ack=tag, step=step, path=os.path.relpath(path, self.folder))

    def took(self, tags, path, step):
        self.note(gone=tags, step=step, path=os.path.relpath(path, self.folder))

    def opened(self, path, flags):
        return os.fdopen(os.open(path, flags, 0o644), "r+b" if flags & os.O_RDWR else "rb", buffering=0)

    def append(self):
        path = self.any_file()
        with open(path, "ab", buffering=0) as file:
            self.put(file.fileno(), path, "append")

    def create(self):
        path = self.any_place()
        with self.opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            self.put(file.fileno(), path, "create")

    def rewrite(self):
        path = self.any_file()
        with self.opened(path, os.O_RDWR) as file:
            tags = [tag for tag, _, _ in records(read_whole(file.fileno()))]
            os.ftruncate(file.fileno(), 0)
            self.took(tags, path, "rewrite")
            self.put(file.fileno(), path, "rewrite", at=0)

    def overwrite(self):
        """One record gives way to another of its length."""
        path = self.any_file()
        with self.opened(path, os.O_RDWR) as file:
            found = records(read_whole(file.fileno()))
            if not found:
                return
            old, at, length = self.chance.choice(found)
            self.count += 1
            tag = f"{self.device}-{self.count}"
            size = length - len(f"{tag} ") - 2
            while size > 0 and len(record(tag, size)) > length:
                size -= 1
            data = record(tag, size) if size > 0 else b""
            if len(data) != length:
                return
            self.write(file.fileno(), path, "overwrite", tag, data, at)
            self.took([old], path, "overwrite")

    def save(self):
        """As editors do: what was read, and more, goes to a temporary file, which then takes the name."""
        path = self.any_file()
        with self.opened(path, os.O_RDONLY) as old:
            seen = self.look(old)
            tag, more = self.new_record()
            temporary = os.path.join(os.path.dirname(path), f".save-{tag}")
            with self.opened(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
                for at in range(0, len(seen.data), 1 << 20):
                    os.write(file.fileno(), seen.data[at:at + (1 << 20)])
                self.write(file.fileno(), path, "save", tag, more)
            self.by_name(old, seen, path, "save", lambda: os.rename(temporary, path))

    def replace(self):
        source, path = self.any_file(), self.any_file()
        if source != path:
            with self.opened(path, os.O_RDONLY) as old:
                self.by_name(old, self.look(old), path, "replace", lambda: os.rename(source, path))

    def remove(self):
        path = self.any_file()
        with self.opened(path, os.O_RDONLY) as old:
            self.by_name(old, self.look(old), path, "remove", lambda: os.unlink(path))

    def look(self, file):
        before = identity(file.fileno())
        data = read_whole(file.fileno())
        return Seen(before, data, [tag for tag, _, _ in records(data)])

    def by_name(self, old, seen, path, step, action):
        """Takes a name away from the file that was looked at, as far as one can tell."""
        if identity(old.fileno()) != seen.identity:
            return
        action()
        self.took(seen.tags, path, step)
        if identity(old.fileno()) != seen.identity:
            self.note(unsure=os.path.relpath(path, self.folder), step=step)

    def move(self):
        old, new = self.any_file(), self.any_place()
        rename_to_free(old, new)
        self.note(moved=os.path.relpath(old, self.folder), to=os.path.relpath(new, self.folder))

    def make_folder(self):
        os.mkdir(os.path.join(self.folder, self.any_folder() or "a"))

    def move_folder(self):
        old, new = self.any_folder(), self.any_folder()
        if old and new and old != new:
            rename_to_free(os.path.join(self.folder, old), os.path.join(self.folder, new))
            self.note(moved=old, to=new)

    def remove_folder(self):
        folder = self.any_folder()
        if folder:
            os.rmdir(os.path.join(self.folder, folder))
            self.note(removed=folder)

    def read(self):
        path = self.any_file()
        with self.opened(path, os.O_RDONLY) as file:
            records(read_whole(file.fileno()))

    def evict(self):
        try:
            self.command(f"evict '/{os.path.relpath(self.any_file(), self.folder)}'")
        except OSError as error:
            # Dirty, open, or gone: said in words.
            if error.errno not in EXPECTED | {errno.EINVAL, errno.EPERM}:
                raise

    def touch(self):
        path = self.any_file()
        os.utime(path, (1_000_000_000, 1_000_000_000 + self.count))
        os.chmod(path, self.chance.choice([0o600, 0o644, 0o640]))


def tree(folder):
    """path -> what it is, down to the bytes and the time."""
    found = {}
    for parent, folders, files in os.walk(folder, onerror=fail):
        for name in folders:
            found[os.path.relpath(os.path.join(parent, name), folder)] = "folder"
        for name in files:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                facts = os.fstat(file.fileno())
                digest = hashlib.sha256(file.read()).hexdigest()[:16]
            found[os.path.relpath(path, folder)] = (
                f"{digest} {facts.st_size} bytes, {oct(stat.S_IMODE(facts.st_mode))}, {facts.st_mtime_ns}")
    return found


def fail(error):
    raise error


def compare(folders):
    first, *others = [tree(folder) for folder in folders]
    lines = []
    for number, other in enumerate(others, 2):
        for path in sorted(first.keys() | other.keys()):
            if first.get(path) != other.get(path):
                lines.append(f"{path}: {first.get(path)} in 1, {other.get(path)} in {number}")
    return lines


def account(folder, logs):
    lines, present, acknowledged, gone, failures = [], set(), {}, set(), {}
    unsure = []
    for log in logs:
        for line in open(log):
            facts = json.loads(line)
            if "ack" in facts:
                acknowledged[facts["ack"]] = facts
            gone.update(facts.get("gone", ()))
            if "unsure" in facts:
                unsure.append(facts)
            if "failed" in facts:
                failures[facts["errno"]] = failures.get(facts["errno"], 0) + 1
    files = 0
    for parent, _, names in os.walk(folder, onerror=fail):
        for name in names:
            files += 1
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                try:
                    present.update(tag for tag, _, _ in records(file.read()))
                except ValueError as error:
                    lines.append(f"{os.path.relpath(path, folder)}: {error}")
    overtaken = 0
    for tag in sorted(acknowledged.keys() - gone - present):
        edit = acknowledged[tag]
        if any(step["unsure"] == edit["path"] and step["at"] >= edit["at"] for step in unsure):
            overtaken += 1
        else:
            lines.append(f"lost: {edit}")
    print(f"{len(acknowledged)} edits, {len(acknowledged.keys() & gone)} taken away later, {len(present)} there in "
          f"{files} files; {overtaken} perhaps taken away by one of {len(unsure)} steps that they overtook; "
          f"refused: {failures}", file=sys.stderr)
    return lines


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "write":
        where, log_path, name, seed_text, duration = words
        Device(where, log_path, name, seed_text).run(float(duration))
    else:
        print("\n".join(compare(words) if verb == "compare" else account(words[0], words[1:])))
