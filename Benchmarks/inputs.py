"""The same input on every machine: a tree of source-like files, as an archive and as a git repository."""

import io
import os
import random
import subprocess
import tarfile

WORDS = "let var func return guard else throw await self init case switch while needle haystack".split()


def make(folder, scale):
    """Leaves tree.tar and repo/ in `folder`. At scale 1 about 9,000 files and 80 MB."""
    archive = os.path.join(folder, "tree.tar")
    write_archive(archive, max(200, int(9_000 * scale)))
    repository = os.path.join(folder, "repo")
    os.mkdir(repository)
    subprocess.run(["tar", "-C", repository, "-xf", archive], check=True)
    environment = dict(
        os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_AUTHOR_DATE="2020-01-01T00:00Z",
        GIT_COMMITTER_DATE="2020-01-01T00:00Z")
    run = lambda *words: subprocess.run(
        ["git", "-C", repository, "-c", "gc.auto=0", "-c", "user.name=b", "-c", "user.email=b@example.org", *words], check=True,
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("init", "-q", "-b", "main")
    run("add", ".")
    run("commit", "-qm", "tree")
    run("gc", "-q")


def write_archive(path, count):
    chance = random.Random(20)
    folders = [""]
    with tarfile.open(path, "w") as archive:
        for number in range(count // 12):
            parent = chance.choice(folders)
            if parent.count("/") < 6:
                folders.append(f"{parent}d{number}/")
                add(archive, folders[-1].rstrip("/"), tarfile.DIRTYPE, 0o755)
        for number in range(count):
            name = f"{chance.choice(folders)}file{number}.swift"
            size = int(chance.lognormvariate(8.2, 1.3))
            text = " ".join(chance.choices(WORDS, k=min(size, 400_000) // 6 + 1)).encode()
            add(archive, name, tarfile.REGTYPE, 0o644, text)
            if number % 50 == 0:
                add(archive, name + ".link", tarfile.SYMTYPE, 0o777, target=os.path.basename(name))


def add(archive, name, kind, mode, data=b"", target=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname, entry.mtime = kind, mode, len(data), target, 1_600_000_000
    archive.addfile(entry, io.BytesIO(data))
