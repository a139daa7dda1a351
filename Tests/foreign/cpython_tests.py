"""CPython's own tests, from Debian's package libpython3.11-testsuite.

Debian leaves test_sqlite3 out of that package; the SQLite test of MountedTests stands in for it.
"""

import os
import subprocess
import xml.etree.ElementTree as xml

PYTHON = "/usr/bin/python3.11"
FOLDER = "/usr/lib/python3.11/test"
MODULES = (
    "test_os test_posix test_shutil test_io test_fileio test_mmap test_tempfile test_tarfile test_zipfile "
    "test_sqlite3 test_glob test_pathlib test_largefile"
).split()
# Signals to readers of pipes, and copies of 2.5 GB: half of the time, and little of it concerns a file system.
SLOW = ["*SignalsTest*", "test.test_largefile.TestCopyfile.*", "test.test_largefile.TestSocketSendfile.*", "*daemon_threads*"]


def missing():
    return None if os.path.exists(PYTHON) and os.path.exists(f"{FOLDER}/test_os.py") else "libpython3.11-testsuite"


def run(folder, full, only):
    results = {}
    for module in [only] if only else MODULES:
        if os.path.exists(f"{FOLDER}/{module}.py") or os.path.isdir(f"{FOLDER}/{module}"):
            results.update(run_module(module, folder, full))
    return results


def run_module(module, folder, full):
    report = f"/tmp/docsfs-cpython-{os.getpid()}-{abs(hash(folder))}-{module}.xml"
    command = [PYTHON, "-B", "-m", "test", "--junit-xml", report, "--tempdir", folder, "--timeout", "600"]
    command += [word for pattern in ([] if full else SLOW) for word in ("--ignore", pattern)]
    environment = dict(os.environ, TMPDIR=folder, TEMP=folder, TMP=folder, LC_ALL="C.UTF-8")
    # Set for our own tests, it would change what `tempfile` and `shutil` are tested for.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        command + [module], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=1800)
    try:
        results = dict(outcome(case) for case in xml.parse(report).iter("testcase"))
    except (OSError, xml.ParseError):
        results = {}
    finally:
        if os.path.exists(report):
            os.unlink(report)
    return results or {module: ("crashed", done.stdout[-2000:] + done.stderr[-2000:])}


def outcome(case):
    for kind in ("error", "failure", "skipped"):
        child = case.find(kind)
        if child is not None:
            text = (child.text or "") + (child.get("message") or "")
            return case.get("name"), ("skipped" if kind == "skipped" else "failed", text[-1500:])
    return case.get("name"), ("skipped" if case.get("result") == "skipped" else "passed", "")
