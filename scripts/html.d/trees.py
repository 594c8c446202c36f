"""Trees that are scanned, and the pages that come of them."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

# Names that would do harm where they are taken for more than names, and how each is shown.
HOSTILE = [
    (b"<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
    (b"<!--<script>", "<!--<script>"),
    (b"]]>-->", "]]>-->"),
    (b"\" onmouseover=\"alert(1)", "\" onmouseover=\"alert(1)"),
    (b"' onfocus='alert(1)", "' onfocus='alert(1)"),
    (b"&lt;b&gt;", "&lt;b&gt;"),
    (b"{{totals}}", "{{totals}}"),
    (b"${alert(1)}`", "${alert(1)}`"),
    (b"__proto__", "__proto__"),
    (b"line\nbreak\tand\rmore", r"line\nbreak\tand\rmore"),
    (b"back\\slash\\u003c", r"back\\slash\\u003c"),
    (b"\x1b[31m\x01\x7f", r"\x1b[31m\x01\x7f"),
    ("sep\u2028\u2029".encode(), r"sep\xe2\x80\xa8\xe2\x80\xa9"),
    ("gpj.\u202eexe".encode(), r"gpj.\xe2\x80\xaeexe"),
    (b"not \xff\xfe utf-8", r"not \xff\xfe utf-8"),
    ("Gr\u00f6\u00dfe \u65e5\u672c \U0001f600".encode(), "Gr\u00f6\u00dfe \u65e5\u672c \U0001f600"),
]
# Across a slash: a folder that is called <, and a file in it.
ACROSS = b"script><script>alert(1)"
PLAIN_SETS = 120


def build(root):
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "dupes"], cwd=root, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or root / "target").resolve() / "debug" / "dupes"


class Report:
    """A page, and what a program is told of the same database."""

    def __init__(self, page, listing, folders):
        self.page, self.listing, self.folders = page, listing, folders
        self.sets = listing["groups"]


def run(program, database, *words):
    done = subprocess.run([program, *words, "--database", database], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"html: {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def report(program, database, page):
    run(program, database, "report", "--html", page)
    listing = json.loads(run(program, database, "report", "files", "--json"))
    return Report(page, listing, json.loads(run(program, database, "report", "folders", "--json")))


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def small(program, folder):
    """Three roots: one with hostile names, one with plain sets in folders, one that is offline when it is told."""
    hostile, plain, away = folder / "hostile", folder / "plain", folder / "away"
    base = os.fsencode(hostile)
    for number, (name, _) in enumerate(HOSTILE):
        content = b"hostile %d" % number * 600
        for side in (b"one", b"two"):
            write(os.path.join(base, side, name), content)
    write(os.path.join(base, b"a", b"<", ACROSS), b"across" * 9_000)
    write(os.path.join(base, b"b", b"<", ACROSS), b"across" * 9_000)
    os.link(os.path.join(base, b"b", b"<", ACROSS), os.path.join(base, b"b", b"a link"))
    for number in range(PLAIN_SETS):
        content = b"%06d" % number * (40 * (1 + number * 7919 % PLAIN_SETS))
        for copy in range(2 + number % 3):
            write(os.fsencode(plain / f"part-{copy}" / f"deep-{number % 4}" / f"file-{number:03}.bin"), content)
    for number in range(20):
        write(os.fsencode(plain / "alone" / f"{number}"), b"%d" % number * (3000 + number))
    for number in range(8):
        write(os.fsencode(plain / "alike-1" / f"{number}.txt"), b"alike %d" % number * 2000)
        write(os.fsencode(plain / "alike-2" / f"{number}.txt"), b"alike %d" % (number % 6) * 2000)
    write(os.fsencode(away / "file"), b"alike 1" * 2000)
    database = folder / "dupes.db"
    for root in (hostile, plain, away):
        run(program, database, "scan", "--progress", "never", root)
    shutil.rmtree(away)
    return report(program, database, folder / "page.html")


def large(program, folder, sets):
    """A root that is empty, and a database that says that so many sets are in it."""
    tree, database = folder / "tree", folder / "dupes.db"
    tree.mkdir(parents=True)
    run(program, database, "scan", "--progress", "never", tree)
    connection = sqlite3.connect(database)
    (top,) = connection.execute("SELECT id FROM folders").fetchone()
    deep = [(top + 1 + n, top if n < 20 else top + 1 + n % 20, f"folder-{n}".encode()) for n in range(3_000)]
    connection.executemany("INSERT INTO folders (id, root, parent, name, device, left_out) VALUES (?, 1, ?, ?, 1, 0)", deep)
    rows = []
    for number in range(sets):
        size, content = 1 + number * 7919 % 1_000_003, number.to_bytes(32, "big")
        for copy in range(2):
            place = deep[(number * 31 + copy * 1_471) % len(deep)][0]
            name = f"file-{number}-{copy}".encode()
            rows.append((place, name, 2 * number + copy, size, -(-size // 4096) * 8, content))
    connection.executemany("INSERT INTO files (folder, name, inode, size, blocks, links, mtime, ctime, racy, hash)"
                           " VALUES (?, ?, ?, ?, ?, 1, 0, 0, 0, ?)", rows)
    connection.commit()
    connection.close()
    page = folder / "page.html"
    run(program, database, "report", "--html", page)
    return Report(page, {"groups": [], "totals": {"sets": sets}}, None)


# ------------------------------------------------------------ for the picture

MB = 1 << 20


def solid(path, megabytes, content):
    """Takes its place on disk, without all of its bytes being written one by one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, int(megabytes * MB))
        file.write(content.encode())


def for_picture(program, folder):
    tree = folder / "tree"
    library(tree)
    database, page = folder / "dupes.db", folder / "page.html"
    shell = 'mount --bind "$1" /mnt; shift; exec "$@"'
    space = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", shell, "sh", tree, program]
    for words in (["scan", "--progress", "never", "/mnt/pictures", "/mnt/projects", "/mnt/backup"],
                  ["report", "--html", page]):
        subprocess.run([*space, *words, "--database", database], check=True)
    return page


def library(tree):
    """What a disk of some years looks like: sizes differ, and there are backups of a part of it."""
    def shots(where, year, name, count, base, share=1.0):
        """The given share of them is the same wherever they are; the others were edited."""
        for number in range(count):
            is_film = number % 9 == 4
            edition = "" if number * 0.37 % 1 < share else where
            file = f"IMG_{year}{number + 1201:04}.{'mov' if is_film else 'jpg'}"
            megabytes = (base + number * 37 % 11 * base / 14) * (5 if is_film else 1)
            solid(tree / where / str(year) / name / file, megabytes, f"{year} {name} {number} {edition}")

    trips = {2021: [("Lisbon", 30, 3.1), ("Garden", 14, 2.2), ("Birthday", 18, 2.6)],
             2022: [("Norway", 52, 3.4), ("Office", 9, 1.7), ("Winter", 22, 2.4)],
             2023: [("Kyoto", 64, 3.2), ("Garden", 16, 2.5), ("Wedding", 40, 3.6)],
             2024: [("Alps", 44, 3.5), ("Cats", 26, 1.9), ("Lake", 20, 2.8)]}
    shares = {"Lisbon": 1, "Birthday": 1, "Garden": 0.6, "Norway": 0.4, "Winter": 1, "Kyoto": 0.2}
    for year, albums in trips.items():
        for name, count, base in albums:
            shots("pictures", year, name, count, base)
            if name in shares:
                shots("backup/laptop", year, name, count, base, shares[name])
    shots("pictures/phone", 2024, "Cats", 26, 1.9, 0.8)
    shots("pictures/phone", 2024, "Lake", 9, 2.8, 0.3)
    for number in range(12):
        for where in ("pictures/film", "backup/laptop/film")[: 2 if number < 4 else 1]:
            solid(tree / where / f"roll-{number:02}.tif", 38 + number * 3, f"film {number}")
    for project, count, base, copied in [("atlas", 40, 2.4, 0), ("site", 25, 1.8, 18), ("thesis", 18, 4.1, 18)]:
        for number in range(count):
            for where in ("projects", "backup/projects")[: 2 if number < copied else 1]:
                solid(tree / where / project / "data" / f"part-{number:03}.bin", base + number % 7, f"{project} {number}")
        for number in range(24):
            solid(tree / "projects" / project / "vendor" / f"lib-{number % 6}" / f"module-{number}.a",
                  0.8 + number % 5 * 0.4, f"lib {number}" if number % 6 else f"{project} lib {number}")
    for number in range(8):
        solid(tree / "backup" / "disk images" / f"image-{number}.iso", 120 + number // 2 * 22,
              f"iso {number // 2 if number > 5 else number}")
    solid(tree / "projects" / "atlas" / "tiles.db", 410, "tiles")
    solid(tree / "projects" / "atlas" / "old" / "tiles.db", 290, "old tiles")
