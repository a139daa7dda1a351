"""An S3 store, and mounts of it by several programs. All below one temporary folder."""

import http.client
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse

import places

HERE = os.path.dirname(os.path.abspath(__file__))


class Store:
    """SeaweedFS on 127.0.0.1, with one bucket."""

    bucket = "docsfs"

    def __init__(self, home):
        self.home = home

    def __enter__(self):
        os.makedirs(self.home, exist_ok=True)
        self.process = subprocess.Popen(
            [os.path.join(HERE, "../mount-scripts/cloud-up"), "s3"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
            text=True, env=dict(os.environ, TMPDIR=self.home))
        said = {}
        while "container" not in said:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the store does not start")
            name, value = line.strip().split("=", 1)
            said[name] = value.strip("'")
        self.endpoint = re.search(r"endpoint=(http://[^&]*)", said["container"])[1]
        self.container = said["container"]
        self.keys = {name: value for name, value in said.items() if name.startswith("AWS_")}
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def url(self, prefix):
        return self.container.replace(f"s3://{self.bucket}", f"s3://{self.bucket}/{prefix}", 1)

    def request(self, method, path, **query):
        """A signed request for XML, by curl, which wants what it signs in order; its body."""
        arguments = urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote)
        user = f"{self.keys['AWS_ACCESS_KEY_ID']}:{self.keys['AWS_SECRET_ACCESS_KEY']}"
        return subprocess.run(
            ["curl", "-sf", "-X", method, "-K", "-", f"{self.endpoint}/{path}?{arguments}"], text=True, check=True,
            input=f'user = "{user}"\naws-sigv4 = "aws:amz:us-east-1:s3"\n', stdout=subprocess.PIPE).stdout

    def sizes(self, prefix):
        """Bytes of each object under `prefix`, by key."""
        found, after = {}, ""
        while True:
            page = self.request("GET", self.bucket, **{"list-type": 2, "prefix": prefix, "start-after": after})
            for key, size in re.findall(r"<Key>([^<]*)</Key>.*?<Size>(\d+)</Size>", page, re.DOTALL):
                found[key] = int(size)
                after = key
            if "<IsTruncated>true" not in page:
                return found

    def parts(self):
        """Size and time of each part, by number, of the upload that is under way."""
        found, upload = {}, re.search(r"<Key>([^<]*)</Key>.*?<UploadId>([^<]*)", self.uploads(), re.DOTALL)
        while upload:
            page = self.request(
                "GET", f"{self.bucket}/{upload[1]}", uploadId=upload[2], **{"part-number-marker": max(found, default=0)})
            for part in re.findall(r"<Part>.*?</Part>", page, re.DOTALL):
                number, size, changed = (
                    re.search(f"<{name}>([^<]*)", part)[1] for name in ("PartNumber", "Size", "LastModified"))
                found[int(number)] = (int(size), changed)
            if "<IsTruncated>true" not in page:
                break
        return found

    def uploads(self):
        return self.request("GET", self.bucket, uploads="")

    def unfinished(self):
        """How many uploads in parts are neither complete nor aborted."""
        return self.uploads().count("<UploadId>")

    def fill(self, keys, body):
        """Objects without metadata, put in past S3 by the store's filer, eight at a time."""
        host, port = urllib.parse.urlparse(self.endpoint).netloc.split(":")
        rest, lock = iter(keys), threading.Lock()
        failures = []

        def work():
            connection = http.client.HTTPConnection(host, int(port) + 3)
            while True:
                with lock:
                    key = next(rest, None)
                if key is None:
                    return
                connection.request("PUT", f"/buckets/{self.bucket}/{key}", body=body)
                reply = connection.getresponse()
                reply.read()
                if reply.status not in (200, 201):
                    failures.append(f"{key}: {reply.status}")
                    return

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise RuntimeError(f"the store takes no object: {failures[0]}")


class CloudPlace(places.Place):
    """A mount of the store. `forget` leaves nothing of it on this machine but what the next mount needs."""

    def __init__(self, home, store):
        super().__init__(home)
        self.store = store
        os.environ.update(store.keys)

    def forget(self):
        self.stop()
        for part in ("state", "cache"):
            shutil.rmtree(os.path.join(self.home, part), ignore_errors=True)
            os.makedirs(os.path.join(self.home, part))
        drop_caches()
        self.start()

    def arrived(self, count, size):
        """Waits until `count` more files of `size` bytes are at the store than when it was last asked."""
        while sum(bytes == size for bytes in self.store.sizes(f"{self.name}/").values()) < count:
            time.sleep(0.1)


def drop_caches():
    try:
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    except OSError:
        pass  # Root alone can; the mounts' own caches are gone all the same.


class Docsfs(CloudPlace, places.Docsfs):
    def command(self):
        state = os.path.join(self.home, "state")
        options = ",".join(("poll=1h",) + tuple(self.options))
        return [self.binary, "mount", self.folder, "--container", self.store.url(self.name), "--state", state,
                "-o", options, "-f"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None
        subprocess.run(["fusermount3", "-uz", self.folder], check=False)

    def arrived(self, count, size):
        # What the program says is checked at the store.
        self.run("sync", self.folder, "--timeout", "3600")
        super().arrived(count, size)


class ReadOnly(Docsfs):
    """Of a store that need not take anything."""

    options = ("ro",)

    def poll(self):
        """Has everything that was listed compared with the store once more, in the background."""
        self.run("disconnect", self.folder)
        self.run("reconnect", self.folder)


class Rclone(CloudPlace):
    name = "rclone"

    def command(self):
        if not shutil.which("rclone"):
            places.missing("rclone")
        os.environ.update(
            RCLONE_CONFIG_C_TYPE="s3", RCLONE_CONFIG_C_PROVIDER="SeaweedFS", RCLONE_CONFIG_C_ENV_AUTH="true",
            RCLONE_CONFIG_C_ENDPOINT=self.store.endpoint, RCLONE_CONFIG_C_REGION="us-east-1",
            RCLONE_CONFIG_C_FORCE_PATH_STYLE="true")
        return ["rclone", "mount", f"c:{self.store.bucket}/{self.name}", self.folder, "--vfs-cache-mode", "full",
                "--vfs-write-back", "1s", "--cache-dir", os.path.join(self.home, "cache"), "--config", "/dev/null"]


class JuiceFS(CloudPlace):
    """Keeps names in a database of its own, and blocks of its own at the store: what close(2) has answered is there."""

    name = "juicefs"

    @property
    def database(self):
        return f"sqlite3://{os.path.join(self.home, 'names.db')}"

    def command(self):
        if not shutil.which("juicefs"):
            places.missing("juicefs")
        if not os.path.exists(os.path.join(self.home, "names.db")):
            subprocess.run(
                ["juicefs", "format", "--storage", "s3", "--bucket", f"{self.store.endpoint}/{self.store.bucket}",
                 self.database, "juicefs"], check=True, stdin=subprocess.DEVNULL, capture_output=True,
                env=dict(os.environ, ACCESS_KEY=self.store.keys["AWS_ACCESS_KEY_ID"],
                         SECRET_KEY=self.store.keys["AWS_SECRET_ACCESS_KEY"]))
        return ["juicefs", "mount", "--no-usage-report", "--cache-dir", os.path.join(self.home, "cache"), self.database,
                self.folder]

    def arrived(self, count, size):
        pass


ALL = {place.name: place for place in (Docsfs, Rclone, JuiceFS)}
