"""Several processes write one SQLite database:  database.py PATH wal|delete PROCESSES ROWS  or  database.py PATH check ROWS"""

import multiprocessing
import sqlite3
import sys


def insert(path, writer, rows):
    connection = sqlite3.connect(path, timeout=120, isolation_level=None)
    for row in range(rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO entry VALUES (?, ?, ?)", (writer, row, "x" * (row * 37 % 3000)))
        connection.execute("UPDATE total SET count = count + 1")
        connection.execute("COMMIT")
        assert connection.execute("SELECT count FROM total").fetchone()[0] > row


def write(path, journal, writers, rows):
    connection = sqlite3.connect(path)
    got = connection.execute(f"PRAGMA journal_mode={journal}").fetchone()[0]
    assert got == journal, got
    connection.execute("CREATE TABLE entry (writer INT, row INT, body TEXT)")
    connection.execute("CREATE TABLE total (count INT)")
    connection.execute("INSERT INTO total VALUES (0)")
    connection.commit()
    connection.close()
    processes = [multiprocessing.Process(target=insert, args=(path, n, rows)) for n in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def check(path, rows):
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    counts = connection.execute("SELECT (SELECT count(*) FROM entry), (SELECT count FROM total)").fetchone()
    assert counts == (rows, rows), counts


if __name__ == "__main__":
    if sys.argv[2] == "check":
        check(sys.argv[1], int(sys.argv[3]))
    else:
        write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
