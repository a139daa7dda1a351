"""Works in a folder and records what each system call promised; or checks the promises.

  acknowledged.py work FOLDER LOG COUNT SEED [sync]   until it is done or the mount dies
  acknowledged.py check FOLDER LOG [synced]           prints each broken promise

LOG has a line before each step ("do …") and after it ("ok …"). A step without its "ok" may have happened or not.
With `sync` every file is fsynced; without, every second one, and files are also renamed, rewritten and removed.
"""

import hashlib
import os
import random
import sys


def body(seed, number, size):
    return random.Random(seed * 1_000_003 + number).randbytes(size)


def put(path, data, sync):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    while data:
        data = data[os.write(fd, data):]
    if sync:
        os.fsync(fd)
    os.close(fd)


class Log:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def step(self, words, action):
        os.write(self.fd, f"do {words}\n".encode())
        action()
        os.write(self.fd, f"ok {words}\n".encode())


def work(folder, log, count, seed, sync):
    chance = random.Random(seed)
    for number in range(count):
        name = f"f{number}"
        path = os.path.join(folder, name)
        data = body(seed, number, chance.choice([0, 1, 700, 4096, 9000, 30000]))
        digest = hashlib.sha256(data).hexdigest()
        synced = sync or number % 2 == 0
        words = f"put {name} {digest} {'synced' if synced else 'written'}"
        log.step(words, lambda: put(path, data, synced))
        if sync:
            continue
        if number % 11 == 10:
            log.step(f"move {name} m{number}", lambda: os.rename(path, os.path.join(folder, f"m{number}")))
        elif number % 7 == 6:
            log.step(f"drop {name}", lambda: os.unlink(path))


def promises(log):
    """name -> digest or None (absent), whether synced; and the names of the step that was not acknowledged."""
    known, synced, pending = {}, set(), []
    for line in open(log):
        if not line.endswith("\n"):
            break
        state, verb, *words = line.split()
        pending = words[:1] if verb != "move" else words
        if state == "do":
            continue
        pending = []
        if verb == "put":
            known[words[0]] = words[1]
            if words[2] == "synced":
                synced.add(words[0])
        elif verb == "move":
            known[words[1]], known[words[0]] = known[words[0]], None
        elif verb == "drop":
            known[words[0]] = None
    return known, synced, set(pending)


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None


def check(folder, log, synced_only):
    known, synced, pending = promises(log)
    broken = 0
    for name, wanted in known.items():
        if name in pending or (synced_only and name not in synced):
            continue
        got = digest(os.path.join(folder, name))
        if got != wanted:
            broken += 1
            print(f"{name}: " + ("missing" if got is None else "there again" if wanted is None else "other bytes"))
    extra = set(os.listdir(folder)) - set(known) - pending
    for name in sorted(extra):
        print(f"{name}: never promised")
    return broken + len(extra)


if __name__ == "__main__":
    command, folder, log = sys.argv[1:4]
    if command == "work":
        work(folder, Log(log), int(sys.argv[4]), int(sys.argv[5]), "sync" in sys.argv[6:])
    else:
        sys.exit(1 if check(folder, log, "synced" in sys.argv[4:]) else 0)
