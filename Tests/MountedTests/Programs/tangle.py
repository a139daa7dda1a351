"""Two writers, one in the mount and one in the container: random moves, exchanges, edits, kinds that replace
each other. Nothing that either was told to be written may be lost.

  tangle.py work SECONDS SEED MOUNT CONTAINER   prints the texts that were written, one a line
  tangle.py missing FOLDER <TEXTS               prints those that no file below FOLDER has
"""
import ctypes
import os
import random
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2
OPERATIONS = ["new", "same", "append", "append", "save", "move", "move_folder", "exchange", "mkdir", "rmdir", "link",
              "unlink", "kind"]


def rename(source, target, flags):
    if libc.renameat2(-100, os.fsencode(source), -100, os.fsencode(target), flags):
        raise OSError(ctypes.get_errno(), "renameat2")


class Writer(threading.Thread):
    def __init__(self, root, tag, seed, end):
        super().__init__()
        self.root, self.tag, self.random, self.end = root, tag, random.Random(seed), end
        self.written, self.count = [], 0

    def run(self):
        while time.time() < self.end:
            try:
                getattr(self, self.random.choice(OPERATIONS))()
            except OSError:
                pass
            time.sleep(self.random.random() / 15)

    def folders(self):
        found = [self.root]
        for path, names, _ in os.walk(self.root):
            names[:] = [name for name in names if not name.startswith(".docsfs")]
            found += [path + "/" + name for name in names]
        return found

    def folder(self):
        return self.random.choice(self.folders())

    def file(self, edited=True):
        folder = self.folder()
        names = [name for name in os.listdir(folder) if not (edited and name.startswith(("save", "kind")))]
        paths = [folder + "/" + name for name in names]
        return self.random.choice([path for path in paths if os.path.isfile(path) and not os.path.islink(path)] or [""])

    def text(self):
        self.count += 1
        return "<%s%d>" % (self.tag, self.count)

    def write(self, path, flags):
        text = self.text()
        file = os.open(path, os.O_WRONLY | flags)
        try:
            os.write(file, (text + "\n").encode())
            self.written.append(text)
        finally:
            os.close(file)

    def new(self):
        self.write("%s/%s%d" % (self.folder(), self.tag, self.count), os.O_CREAT | os.O_EXCL)

    def same(self):
        self.write("%s/same%d" % (self.folder(), self.random.randrange(6)), os.O_CREAT | os.O_EXCL)

    def append(self):
        self.write(self.file(), os.O_APPEND)

    def save(self):
        path, text = self.file(), self.text()
        with open(path, "rb") as file:
            content = file.read()
        other = "%s/save%s%d" % (os.path.dirname(path), self.tag, self.count)
        with open(other, "wb") as file:
            file.write(content + (text + "\n").encode())
        rename(other, path, EXCHANGE)
        self.written.append(text)

    def move(self):
        path = self.file(edited=False)
        rename(path, self.folder() + "/" + os.path.basename(path), NOREPLACE)

    def move_folder(self):
        rename(self.folder(), "%s/d%d" % (self.folder(), self.random.randrange(8)), NOREPLACE)

    def exchange(self):
        rename(self.folder(), self.folder(), EXCHANGE)

    def mkdir(self):
        os.mkdir("%s/d%d" % (self.folder(), self.random.randrange(8)))

    def rmdir(self):
        folder = self.folder()
        if folder != self.root:
            os.rmdir(folder)

    def link(self):
        os.symlink("to%d" % self.random.randrange(100), "%s/l%d" % (self.folder(), self.random.randrange(5)))

    def unlink(self):
        folder = self.folder()
        links = [name for name in os.listdir(folder) if os.path.islink(folder + "/" + name)]
        if links:
            os.unlink(folder + "/" + self.random.choice(links))

    def kind(self):
        path = "%s/kind%d" % (self.folder(), self.random.randrange(3))
        if os.path.lexists(path):
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        kind = self.random.randrange(3)
        if kind == 0:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        elif kind == 1:
            os.mkdir(path)
        else:
            os.symlink("to%d" % self.count, path)


def texts(root):
    found = set()
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != ".docsfs-container"]
        for name in files:
            path = folder + "/" + name
            if not os.path.islink(path):
                with open(path, errors="replace") as file:
                    found.update(file.read().split("\n"))
    return found


if sys.argv[1] == "work":
    seconds, seed = float(sys.argv[2]), int(sys.argv[3])
    writers = [Writer(root, tag, seed * 2 + index, time.time() + seconds)
               for index, (root, tag) in enumerate(zip(sys.argv[4:], "mc"))]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        print("\n".join(writer.written))
else:
    there = texts(sys.argv[2])
    print("\n".join(line for line in sys.stdin.read().split("\n") if line not in there))
