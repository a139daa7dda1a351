"""What `cloud` measures. Each function is given a folder and the arguments, and returns numbers by place and row."""

import os
import random
import statistics
import time

import cloudplaces
from distance import find, timed
from listing import ListingServer

MEBIBYTE = 1 << 20
SMALL = 16 << 10


def beside(home, given):
    """The same work on each mount of one store, one after another; every `cold` begins with nothing local."""
    size, count, listed = int(1024 * given.scale) * MEBIBYTE, int(2_000 * given.scale), int(10_000 * given.scale)
    results = {}
    with cloudplaces.Store(os.path.join(home, "store")) as store:
        for name in given.places:
            try:
                with cloudplaces.ALL[name](os.path.join(home, "places"), store) as place:
                    results[name] = {
                        f"upload of {size // MEBIBYTE} MiB, s": timed(lambda: upload_large(place, size)),
                        f"upload of {count} files of 16 KiB, s": timed(lambda: upload_small(place, count)),
                        "first byte of the large file, cold, ms": first_byte(place, 0),
                        "first byte of its middle, cold, ms": first_byte(place, size // 2),
                        "sequential read of it, cold, s": cold(place, lambda: read(place, "large", size)),
                        **listing(place, listed),
                    }
            except RuntimeError as error:
                print(error)
    return results


def upload_large(place, size):
    write(place, "large", size)
    place.arrived(1, size)


def upload_small(place, count):
    os.mkdir(os.path.join(place.folder, "small"))
    for number in range(count):
        write(place, f"small/{number}", SMALL)
    place.arrived(count, SMALL)


def listing(place, count):
    """Names alone, and names with size and time, of one folder that another program has filled."""
    if isinstance(place, cloudplaces.JuiceFS):
        # Only it itself can put files there.
        os.mkdir(os.path.join(place.folder, "listed"))
        for number in range(count):
            write(place, f"listed/{number:06d}", 10)
    else:
        place.store.fill((f"{place.name}/listed/{number:06d}" for number in range(count)), b"0123456789")
    folder = os.path.join(place.folder, "listed")
    return {
        f"names of {count} files, cold, s": cold(place, lambda: expect(len(os.listdir(folder)), count)),
        f"names, sizes and times of {count} files, cold, s":
            cold(place, lambda: expect(sum(entry.stat().st_size == 10 for entry in os.scandir(folder)), count)),
    }


def first_byte(place, offset):
    """Milliseconds; the median of five, since programs' own pages come from the disk again as well."""
    return statistics.median(cold(place, lambda: read(place, "large", 1, offset)) for _ in range(5)) * 1000


def cold(place, action):
    place.forget()
    # That it is there is looked at before the clock runs.
    os.stat(place.folder)
    return timed(action)


def write(place, name, size):
    block = random.Random(name).randbytes(min(size, MEBIBYTE))
    with open(os.path.join(place.folder, name), "wb", buffering=0) as file:
        for number in range(max(1, size // len(block))):
            # No two blocks are alike, for programs that would notice.
            file.write(number.to_bytes(8, "big") + block[8:])


def read(place, name, count, offset=0):
    with open(os.path.join(place.folder, name), "rb", buffering=0) as file:
        file.seek(offset)
        done = 0
        while done < count and (part := len(file.read(min(MEBIBYTE, count - done)))):
            done += part
    expect(done, count)


def expect(found, wanted):
    if found != wanted:
        raise RuntimeError(f"{found} instead of {wanted}")


def large(home, given):
    """One file. The daemon is killed when half of it is at the store, and the next one goes on with the other half."""
    size = max(64, int(10_240 * given.scale)) * MEBIBYTE
    found = {"size, MiB": size // MEBIBYTE}
    with cloudplaces.Store(os.path.join(home, "store")) as store:
        with cloudplaces.Docsfs(os.path.join(home, "places"), store) as place:
            found["written to the mount, s"] = timed(lambda: write(place, "large", size))
            found["half of it sent, s"] = timed(lambda: parts_above(store, size // 2))
            found["resident at the peak until then, MiB"] = place.memory()[1] / MEBIBYTE
            place.kill()
            before = store.parts()
            place.start()
            found["three quarters sent by the next daemon, s"] = timed(lambda: parts_above(store, size * 3 // 4))
            after = store.parts()
            found["parts at the kill"] = len(before)
            found["of those sent again"] = sum(after.get(number) != part for number, part in before.items())
            found["the rest sent, s"] = timed(lambda: place.arrived(1, size))
            found["resident at the peak, sending, MiB"] = place.memory()[1] / MEBIBYTE
            found["uploads in parts left unfinished"] = store.unfinished()
            place.forget()
            found["read back and compared, cold, s"] = timed(lambda: verify(place, "large", size))
            found["resident at the peak, reading, MiB"] = place.memory()[1] / MEBIBYTE
            found["content files left when it is gone"] = left_behind(place)
    return {"docsfs": found}


def parts_above(store, bytes):
    while sum(size for size, _ in store.parts().values()) < bytes:
        time.sleep(1)


def verify(place, name, size):
    block = random.Random(name).randbytes(MEBIBYTE)
    with open(os.path.join(place.folder, name), "rb", buffering=0) as file:
        for number in range(size // MEBIBYTE):
            found = b""
            while len(found) < MEBIBYTE and (part := file.read(MEBIBYTE - len(found))):
                found += part
            if found != number.to_bytes(8, "big") + block[8:]:
                raise RuntimeError(f"{name}: other bytes at {number} MiB")


def left_behind(place):
    """Content files of the state directory once the file has been removed and that is at the store."""
    os.unlink(os.path.join(place.folder, "large"))
    place.settle()
    return sum(len(files) for _, _, files in os.walk(os.path.join(place.home, "state/content")))


def bucket(home, given):
    """A real bucket of 100,000 objects, then one of 1,000,000 that a server makes up as it is asked."""
    count, files = max(10, int(1_000 * given.scale)), 1_000
    results = {}
    with cloudplaces.Store(os.path.join(home, "store")) as store:
        folders = max(1, count // 10)
        store.fill((f"docsfs/d{number // files:04d}/f{number % files:04d}" for number in range(folders * files)), b"0123456789")
        results[f"{folders * files:,} at SeaweedFS"] = looked_through(home, store, folders, files, 10)
    with ListingServer(count, files) as server:
        results[f"{count * files:,} made up"] = looked_through(home, server, count, files, 0)
    return results


def looked_through(home, store, folders, files, first):
    with cloudplaces.ReadOnly(os.path.join(home, "places"), store) as place:
        began = time.perf_counter()
        place.forget()
        found = {"mount, s": time.perf_counter() - began}
        found["names of the first folder, s"] = timed(lambda: expect(len(os.listdir(place.folder)), folders))
        within = os.path.join(place.folder, "d0000")
        found["names, sizes and times of one in it, s"] = timed(
            lambda: expect(sum(entry.stat().st_size == 10 for entry in os.scandir(within)), files))
        found["find of all, s"] = timed(lambda: find(place, folders * files))
        found["resident afterwards, MiB"] = place.memory()[0] / MEBIBYTE
        found["find of all again, s"] = timed(lambda: find(place, folders * files))
        if isinstance(store, ListingServer):
            asked = store.requests()
            place.poll()
            found["a poll of all, s"] = store.until_quiet()
            found["  in requests"] = store.requests() - asked
        found["resident at the peak, MiB"] = place.memory()[1] / MEBIBYTE
        return found


ALL = {"beside": beside, "large": large, "bucket": bucket}
