"""fio writes at random and verifies a checksum of each block: buffered, direct, and through a mapping."""

import json
import os
import shutil
import subprocess

JOBS = {
    "buffered": ["--ioengine=psync", "--rw=randwrite", "--bsrange=512-65536", "--blockalign=512", "--fsync=64"],
    "buffered-mixed": ["--ioengine=psync", "--rw=randrw", "--bs=4k", "--verify_backlog=64"],
    "direct": ["--ioengine=psync", "--rw=randwrite", "--bs=4k", "--direct=1"],
    "direct-async": ["--ioengine=libaio", "--iodepth=16", "--rw=randwrite", "--bs=8k", "--direct=1"],
    "mmap": ["--ioengine=mmap", "--rw=randwrite", "--bs=4k", "--fsync=128"],
    "appended": ["--ioengine=psync", "--rw=write", "--bs=13k", "--file_append=1"],
}


def missing():
    return None if shutil.which("fio") else "fio"


def run(folder, full, only):
    return {name: job(name, folder, full) for name in ([only] if only else JOBS)}


def job(name, folder, full):
    command = [
        "fio", f"--name={name}", f"--directory={folder}", f"--size={'1g' if full else '24m'}", "--verify=crc32c",
        "--do_verify=1", "--verify_fatal=1", "--randseed=7", "--fallocate=none", "--output-format=json",
        "--thread", f"--numjobs={4 if full else 1}",
    ]
    try:
        done = subprocess.run(
            command + JOBS[name], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    for entry in os.listdir(folder):
        os.unlink(os.path.join(folder, entry))
    try:
        errors = [part["error"] for part in json.loads(done.stdout[done.stdout.index("{"):])["jobs"]]
    except ValueError:
        errors = [f"exit status {done.returncode}"]
    bad = done.returncode != 0 or any(errors)
    return ("failed" if bad else "passed"), f"{errors} {done.stderr[-1500:]}"
