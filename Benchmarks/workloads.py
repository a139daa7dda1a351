"""What is measured. Each workload is given an empty folder and returns seconds by name; it checks what it reads.

Run alone:  workloads.py NAME FOLDER SCALE INPUTS   prints the seconds as JSON. SCALE 1 is the full size.
"""

import json
import os
import random
import subprocess
import sys
import time

MEBIBYTE = 1 << 20


class Stopwatch:
    def __init__(self):
        self.seconds = {}

    def measure(self, name, action):
        start = time.perf_counter()
        result = action()
        self.seconds[name] = time.perf_counter() - start
        return result


def drop_caches():
    """Whether the kernel's caches are cold now; root only."""
    try:
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        return True
    except OSError:
        return False


def large_file(folder, scale, inputs):
    """One file, written, read and changed in sequence and at random."""
    watch = Stopwatch()
    path = os.path.join(folder, "large")
    size = max(16, int(1024 * scale)) * MEBIBYTE
    block = random.Random(1).randbytes(MEBIBYTE)
    watch.measure("sequential write", lambda: write_blocks(path, block, size))
    watch.measure("sequential write + fsync", lambda: write_blocks(path, block, size, sync=True))
    if drop_caches():
        watch.measure("sequential read, cold", lambda: read_all(path, size))
    else:
        read_all(path, size)
    watch.measure("sequential read, warm", lambda: read_all(path, size))
    places = random.Random(2)
    offsets = [places.randrange(size // 4096) * 4096 for _ in range(max(200, int(20_000 * scale)))]
    watch.measure("random read 4 KiB, warm", lambda: read_at(path, offsets))
    if drop_caches():
        watch.measure("random read 4 KiB, cold", lambda: read_at(path, offsets[: len(offsets) // 10]))
    watch.measure("random write 4 KiB", lambda: write_at(path, offsets))
    watch.measure("random write 4 KiB + fsync", lambda: write_at(path, offsets[: len(offsets) // 40], sync_each=True))
    return watch.seconds


def small_files(folder, scale, inputs):
    """10,000 files in 100 folders: made, looked at, listed, read, renamed, removed."""
    watch = Stopwatch()
    count = max(500, int(10_000 * scale))
    folders = [os.path.join(folder, f"d{number}") for number in range(100)]
    paths = [os.path.join(folders[number % 100], f"f{number}") for number in range(count)]
    watch.measure("mkdir", lambda: [os.mkdir(path) for path in folders])
    watch.measure("create", lambda: [put(path, b"x" * 1000) for path in paths])
    if drop_caches():
        watch.measure("stat, cold", lambda: [os.stat(path) for path in paths])
    watch.measure("stat, again", lambda: [os.stat(path) for path in paths])
    watch.measure("readdir, warm", lambda: [os.listdir(path) for path in folders])
    watch.measure("open + read, warm", lambda: [read_all(path, 1000) for path in paths])
    if drop_caches():
        watch.measure("find, cold", lambda: subprocess.run(["find", folder, "-size", "+1M"], check=True))
        drop_caches()
        watch.measure("open + read, cold", lambda: [read_all(path, 1000) for path in paths])
    watch.measure("rename", lambda: [os.rename(path, path + "r") for path in paths])
    watch.measure("unlink", lambda: [os.unlink(path + "r") for path in paths])
    watch.measure("create + fsync", lambda: [put(path, b"x" * 1000, sync=True) for path in paths[: count // 20]])
    return watch.seconds


def large_folder(folder, scale, inputs):
    """One folder of 100,000 entries."""
    watch = Stopwatch()
    count = max(2_000, int(100_000 * scale))
    names = [f"{number:06d}" for number in range(count)]
    watch.measure("create", lambda: [put(os.path.join(folder, name), b"") for name in names])
    if drop_caches():
        watch.measure("ls -lU, cold", lambda: look_at_all(folder, count))
    watch.measure("ls -lU, warm", lambda: look_at_all(folder, count))
    watch.measure("ls, warm", lambda: len(os.listdir(folder)))
    sample = random.Random(3).sample(names, count // 10)
    watch.measure("stat at random", lambda: [os.stat(os.path.join(folder, name)) for name in sample])
    watch.measure("rm -r", lambda: subprocess.run(f"rm -r '{folder}'/*[05]", shell=True, check=True))
    return watch.seconds


def tree(folder, scale, inputs):
    """An archive unpacked, searched, packed and removed."""
    watch = Stopwatch()
    archive, target = os.path.join(inputs, "tree.tar"), os.path.join(folder, "t")
    os.mkdir(target)
    run = lambda *words: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    watch.measure("untar", lambda: run("tar", "-C", target, "-xf", archive))
    watch.measure("grep -r, warm", lambda: run("grep", "-rc", "needle", target))
    watch.measure("tar, warm", lambda: run("tar", "-C", target, "-cf", "/dev/null", "--checkpoint=100000", "."))
    watch.measure("du", lambda: run("du", "-s", target))
    watch.measure("rm -rf", lambda: run("rm", "-rf", target))
    return watch.seconds


def git(folder, scale, inputs):
    """git clone, status, and a commit."""
    watch = Stopwatch()
    clone = os.path.join(folder, "clone")
    environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    run = lambda *words: subprocess.run(("git",) + words, check=True, stdout=subprocess.DEVNULL, env=environment)
    watch.measure("clone", lambda: run("clone", "-q", "--no-hardlinks", os.path.join(inputs, "repo"), clone))
    watch.measure("status", lambda: run("-C", clone, "status", "--porcelain"))
    put(os.path.join(clone, "new"), b"line\n")
    who = ("-c", "user.name=b", "-c", "user.email=b@example.org")
    watch.measure("add + commit", lambda: (run("-C", clone, "add", "."), run("-C", clone, *who, "commit", "-qm", "b")))
    run("-C", clone, "rm", "-rq", ".")
    watch.measure("checkout", lambda: run("-C", clone, "checkout", "-q", "HEAD", "--", "."))
    watch.measure("fsck", lambda: run("-C", clone, "fsck", "--no-progress"))
    return watch.seconds


def write_blocks(path, block, size, sync=False):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(size // len(block)):
        os.write(fd, block)
    if sync:
        os.fsync(fd)
    os.close(fd)


def read_all(path, size):
    fd = os.open(path, os.O_RDONLY)
    done = 0
    while part := len(os.read(fd, MEBIBYTE)):
        done += part
    os.close(fd)
    assert done == size, f"{path}: {done} bytes for {size}"


def read_at(path, offsets):
    fd = os.open(path, os.O_RDONLY)
    for offset in offsets:
        assert len(os.pread(fd, 4096, offset)) == 4096
    os.close(fd)


def write_at(path, offsets, sync_each=False):
    fd = os.open(path, os.O_WRONLY)
    block = b"w" * 4096
    for offset in offsets:
        os.pwrite(fd, block, offset)
        if sync_each:
            os.fsync(fd)
    os.close(fd)


def put(path, data, sync=False):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, data)
    if sync:
        os.fsync(fd)
    os.close(fd)


def look_at_all(folder, count):
    seen = sum(entry.stat(follow_symlinks=False).st_size >= 0 for entry in os.scandir(folder))
    assert seen == count, f"{seen} entries for {count}"


ALL = {"large-file": large_file, "small-files": small_files, "large-folder": large_folder, "tree": tree, "git": git}

if __name__ == "__main__":
    name, folder, scale, inputs = sys.argv[1:]
    print(json.dumps(ALL[name](folder, float(scale), inputs)))
