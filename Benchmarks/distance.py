"""What only docsfs does: materializing from far away, and holding a million items. Absolute numbers."""

import os
import random
import subprocess
import time

import places

MEBIBYTE = 1 << 20


def materialization(home, scale, latency=0.08):
    """Seconds to the first byte, and bytes a second, from a container that is `latency` seconds away."""
    results = {}
    place = places.Docsfs(os.path.join(home, "far"))
    place.query = f"latency={int(latency * 1000)}ms"
    size = max(32, int(512 * scale)) * MEBIBYTE
    os.makedirs(place.backing)
    for name in ("first", "whole"):
        fill(os.path.join(place.backing, name), size)
    for number in range(100):
        fill(os.path.join(place.backing, f"small{number}"), 65_536)
    with place:
        os.listdir(place.folder)
        results["first byte of a large file, s"] = timed(lambda: read(place, "first", 1, size // 2))
        results["  in round trips"] = results["first byte of a large file, s"] / latency
        seconds = timed(lambda: read(place, "whole", size))
        results["sequential read of a placeholder, MiB/s"] = size / MEBIBYTE / seconds
        seconds = timed(lambda: [read(place, f"small{number}", 65_536) for number in range(50)])
        results["small placeholders one after another, files/s"] = 50 / seconds
        seconds = timed(lambda: place.run("materialize", "-r", place.folder))
        results["materialize -r of the rest, s"] = seconds
        seconds = timed(lambda: upload(place, size))
        results["upload of one large file, MiB/s"] = size / MEBIBYTE / seconds
        seconds = timed(lambda: upload_many(place, 200))
        results["upload of small files, files/s"] = 200 / seconds
    return results


def memory(home, folders=1_000, files=1_000):
    """What the daemon holds after everything has been listed once."""
    place = places.Docsfs(os.path.join(home, "million"))
    for number in range(folders):
        folder = os.path.join(place.backing, f"d{number:04d}")
        os.makedirs(folder)
        for inner in range(files):
            os.close(os.open(f"{folder}/f{inner:04d}", os.O_CREAT | os.O_WRONLY, 0o644))
    results = {"items": folders * (files + 1)}
    results["mount, s"] = timed(place.__enter__)
    try:
        results["empty, MiB"] = place.memory()[0] / MEBIBYTE
        results["find of all, first time, s"] = timed(lambda: find(place, folders * files))
        results["resident afterwards, MiB"] = place.memory()[0] / MEBIBYTE
        results["find of all, second time, s"] = timed(lambda: find(place, folders * files))
        results["resident at the peak, MiB"] = place.memory()[1] / MEBIBYTE
        results["mount again, s"] = timed(lambda: (place.stop(), place.start()))
        sample = [f"{place.folder}/d{n % folders:04d}/f{n % files:04d}" for n in random.Random(1).sample(range(10**6), 1000)]
        results["stat of 1,000 at random after that, s"] = timed(lambda: [os.stat(path) for path in sample])
    finally:
        place.__exit__()
    return results


def timed(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fill(path, size):
    block = random.Random(size).randbytes(min(size, MEBIBYTE))
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def read(place, name, count, offset=0):
    with open(os.path.join(place.folder, name), "rb", buffering=0) as file:
        file.seek(offset)
        done = 0
        while done < count and (part := len(file.read(min(MEBIBYTE, count - done)))):
            done += part
    assert done == count, f"{name}: {done} bytes for {count}"


def upload(place, size):
    fill(os.path.join(place.folder, "new"), size)
    place.run("sync", place.folder)


def upload_many(place, count):
    for number in range(count):
        fill(os.path.join(place.folder, f"new{number}"), 10_000)
    place.run("sync", place.folder)


def find(place, count):
    said = subprocess.run(["find", place.folder, "-type", "f", "-size", "-2"], capture_output=True, check=True).stdout
    seen = said.count(b"\n")
    assert seen == count, f"{seen} files for {count}"
