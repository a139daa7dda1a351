"""Where it is measured: a native folder, and mounts of one by several programs. All below one temporary folder."""

import os
import shutil
import signal
import subprocess
import time


def is_mounted(path):
    with open("/proc/self/mountinfo") as table:
        return any(line.split()[4] == path for line in table)


class Place:
    """A folder to work in. `with` makes it and takes it away again."""

    name = "native"

    def __init__(self, home):
        self.home = os.path.join(home, self.name)
        self.process = None

    def __enter__(self):
        for part in ("mnt", "backing", "state", "cache"):
            os.makedirs(os.path.join(self.home, part), exist_ok=True)
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def folder(self):
        return os.path.join(self.home, "mnt")

    @property
    def backing(self):
        return os.path.join(self.home, "backing")

    def settle(self):
        """Nothing of the workload before is still under way in the background."""

    def command(self):
        return None

    def start(self):
        command = self.command()
        if command is None:
            return
        log = open(os.path.join(self.home, "log"), "ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env=dict(os.environ, HOME=self.home, XDG_CONFIG_HOME=self.home, XDG_CACHE_HOME=f"{self.home}/cache"))
        deadline = time.monotonic() + 60
        while not is_mounted(self.folder):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                with open(log.name, errors="replace") as said:
                    raise RuntimeError(f"{self.name} does not mount: {said.read()[-500:]}")
            time.sleep(0.01)

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        if is_mounted(self.folder):
            subprocess.run(["fusermount3", "-uz", self.folder], check=False)


class Bindfs(Place):
    name = "bindfs"

    def command(self):
        return ["bindfs", "-f", "--multithreaded", self.backing, self.folder] if shutil.which("bindfs") else missing("bindfs")


class Rclone(Place):
    name = "rclone"

    def command(self):
        if not shutil.which("rclone"):
            missing("rclone")
        return [
            "rclone", "mount", self.backing, self.folder, "--vfs-cache-mode", "full", "--vfs-write-back", "1s",
            "--cache-dir", os.path.join(self.home, "cache"), "--links",
        ]


class Docsfs(Place):
    name = "docsfs"
    binary = "docsfs"
    query = ""
    options = ()

    def command(self):
        if not os.access(self.binary, os.X_OK):
            raise RuntimeError(f"{self.binary}: there is no such program; swift build -c release makes it")
        url = f"dir:{self.backing}" + (f"?{self.query}" if self.query else "")
        extra = ["-o", ",".join(self.mount_options)] if self.mount_options else []
        state = os.path.join(self.home, "state")
        return [self.binary, "mount", self.folder, "--container", url, "--state", state, "-f"] + extra

    @property
    def mount_options(self):
        return self.options

    def run(self, *words):
        subprocess.run([self.binary, *words], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def settle(self):
        self.run("sync", self.folder, "--timeout", "300")

    def memory(self):
        """Resident bytes of the daemon: now, and at its peak."""
        found = {}
        with open(f"/proc/{self.process.pid}/status") as table:
            for line in table:
                if line.startswith(("VmRSS:", "VmHWM:")):
                    found[line[:5]] = int(line.split()[1]) * 1024
        return found["VmRSS"], found["VmHWM"]


class Passthrough(Docsfs):
    """The kernel reads and writes content files by itself, or there is no mount."""

    name = "docsfs-passthrough"

    @property
    def mount_options(self):
        return (*self.options, "faults=off", "io=passthrough")


def missing(program):
    raise RuntimeError(f"{program} is not installed")


ALL = {place.name: place for place in (Place, Docsfs, Passthrough, Bindfs, Rclone)}
