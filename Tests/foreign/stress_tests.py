"""stress-ng's file-system stressors, each checking what it reads back."""

import os
import shutil
import subprocess

QUICK = "access chmod copy-file dentry dir fallocate fpunch hdd iomix lockf mmap open rename seek unlink xattr".split()
ALL = sorted(
    set(QUICK)
    | set(
        "acl aio chdir chown dirdeep dirmany dup fcntl fiemap file-ioctl filename flock fsize fstat getdent "
        "io lease link locka lockofd mknod metamix msync readahead revio sendfile splice symlink sync-file touch "
        "utime verity aiol".split()
    )
)
# Stressors that would take what they find on other file systems, or need a certain size.
EXTRA = {"hdd": ["--hdd-bytes", "32M"], "mmap": ["--mmap-file", "--mmap-bytes", "16M"], "iomix": ["--iomix-bytes", "16M"],
         "fallocate": ["--fallocate-bytes", "32M"], "seek": ["--seek-size", "16M"], "aiol": ["--aiol-requests", "16"],
         "copy-file": ["--copy-file-bytes", "32M"], "revio": ["--revio-bytes", "16M"],
         "sendfile": ["--sendfile-size", "1M"], "splice": ["--splice-bytes", "1M"],
         "readahead": ["--readahead-bytes", "16M"], "sync-file": ["--sync-file-bytes", "16M"],
         "fiemap": ["--fiemap-bytes", "16M"]}
MEANING = {0: "passed", 2: "failed", 3: "not possible here", 4: "not possible here", 5: "killed", 7: "passed"}


def missing():
    return None if shutil.which("stress-ng") else "stress-ng"


def run(folder, full, only):
    names = [only] if only else ALL if full else QUICK
    return {name: stress(name, folder, 10 if full else 1) for name in names}


def stress(name, folder, seconds):
    command = ["stress-ng", "--temp-path", folder, "--verify", "--timeout", f"{seconds}s", f"--{name}", "1"]
    try:
        done = subprocess.run(
            command + EXTRA.get(name, []), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds + 120)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    text = done.stdout + done.stderr
    said = [line for line in text.splitlines() if "fail:" in line or "error:" in line or "warn:" in line]
    left = [entry for entry in os.listdir(folder) if entry.startswith("tmp-stress-ng")]
    if left:
        shutil.rmtree(os.path.join(folder, left[0]), ignore_errors=True)
    status = MEANING.get(done.returncode, f"exit status {done.returncode}")
    return ("failed" if status == "passed" and any("fail:" in line for line in said) else status), "\n".join(said[:12])
