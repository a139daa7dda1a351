"""How long docsfs may take, with native = 1: by workload and step, in kernel passthrough and through the page cache.

Where a step moves bytes the bar is a share of the native rate, written as 1 / share.
"""

PASSTHROUGH, CACHED = "docsfs-passthrough", "docsfs"

_BARS = {
    ("large-file", "sequential read, warm"): (1 / 0.95, 1 / 0.85),
    ("large-file", "sequential read, cold"): (1 / 0.9, 1 / 0.6),
    ("large-file", "sequential write + fsync"): (1 / 0.85, 1 / 0.5),
    ("large-file", "random read 4 KiB, warm"): (1 / 0.85, 1 / 0.7),
    ("large-file", "random read 4 KiB, cold"): (1 / 0.9, 1 / 0.45),
    ("large-file", "random write 4 KiB"): (1 / 0.85, 1 / 0.45),
    ("small-files", "create"): (4, 4),
    ("small-files", "stat, cold"): (1.5, 1.5),
    ("small-files", "stat, again"): (1.1, 1.1),
    ("small-files", "unlink"): (4, 4),
    ("large-folder", "ls -lU, cold"): (2, 2),
    ("git", "clone"): (1.5, 2),
    ("git", "checkout"): (1.5, 2),
    ("git", "status"): (1.5, 2),
    ("tree", "untar"): (3, 3),
}


def bar(place, key):
    """None where there is none."""
    if place not in (PASSTHROUGH, CACHED) or key not in _BARS:
        return None
    return _BARS[key][place == CACHED]
