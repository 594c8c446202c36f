"""Disturbs `dupes apply` in the middle of its work, and judges by what is on disk, with code of its own.

A tree of 200 sets, with folders that are equal, and a plan for it. At each point the tree is made anew, the plan is
carried out and killed, or has a call that fails; then `dupes recover` and the same command run, twice. What must hold:

- at the moment of the crash: every content is there, what stays is as it was, what the plan does not name is
  as it was, and with a link no path is missing (content lost);
- at every second point, after `recover roll-back`: the tree is the one it was (not converged);
- after recovering and running again: all is done as in a run that nobody disturbed (not converged);
- once more: nothing changes (second rerun changed);
- and undo: the tree is the one it was, but for what its documents say it can't give back (undo differs).

The way back is disturbed as well: `undo`, `recover finish`, `recover roll-back` and `purge-quarantine`, each after a run
that was whole or cut off; the same must hold of them. And all of it where the power fails in the middle: on ext4 and
xfs, in files that are mounted.

With --all it is killed before each call that changes something (before a sync, at a few: what it has written is not lost
by that), and each call fails with each error, every so-manieth in one run and the others in as many more; a write of the
journal, which ends the run, by itself and with one of them. A point is a call that failed, or before which it was killed.
"""
import contextlib
import functools
import hashlib
import json
import multiprocessing
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

from disk import NEEDS, Disk

ACTIONS = ["remove", "move", "hardlink", "symlink", "reflink"]
# By what a plan is carried out, undone and written down.
CHANGES = [
    "renameat2", "linkat", "symlinkat", "unlinkat", "mkdirat", "mkdir", "write", "fsync", "fdatasync", "fchmod",
    "utimensat", "ioctl", "flock",
]
# What these change is not for a kill to show: the system is still there.
SYNCS = ["fsync", "fdatasync", "flock"]
READS = ["openat2", "openat", "open", "newfstatat", "fstat", "statx", "pread64", "read", "flistxattr", "fgetxattr"]
ERRORS = [
    "ENOSPC", "EDQUOT", "EROFS", "EPERM", "EACCES", "EIO", "EMFILE", "EXDEV", "EMLINK", "EINTR",
]
KILL, POWER, KILLED = "SIGKILL", "a loss of power", 137
SETS = 200
# The ways back, and what goes for good.
BACK = [["undo"], ["recover", "finish"], ["recover", "roll-back"], ["purge-quarantine", "--yes"]]
# Without --all: so many kills for each call, and one error.
FEW = 3
LIMIT = 120
STRACE = ["strace", "-f", "--seccomp-bpf", "-qq"]
# With --all each call fails with each error: about so many in one run, but no more than every fourth; the next ones
# in the next run.
AT_ONCE, APART = 400, 4
# Of each call that changes something: a new mount for each.
MANY_LOSSES = 12


def campaign(program, killer, folder, action, all_of_it):
    place = Disk("xfs", folder) if action == "reflink" else contextlib.nullcontext()
    with place as disk:
        if disk and not disk.top:
            print(f"crash: skipped: no file system here on which files can share blocks ({NEEDS})")
            return 0
        counts = disturbed(program, killer, disk.top if disk else folder, action, all_of_it)
    for kind in ["xfs"] if action == "reflink" else ["ext4", "xfs"]:
        with Disk(kind, pathlib.Path(tempfile.mkdtemp(dir=folder))) as disk:
            if disk.top:
                counts.append(without_power(program, killer, disk, action, all_of_it))
            else:
                print(f"crash: no loss of power on {kind} ({NEEDS})")
    runs, calls, lost, stuck, changed, undo, wrong = map(sum, zip(*counts))
    print(
        f"points {calls}, content lost {lost}, not converged {stuck}, second rerun changed {changed}, "
        f"undo differs {undo} ({runs} runs)"
    )
    return 0 if runs and not (lost or stuck or changed or undo or wrong) else 1


def disturbed(program, killer, folder, action, all_of_it):
    """Killed, and with calls that fail: the counts of each."""
    first = Score(program, killer, folder / "first", action)
    tasks = []
    for back in ways(action):
        for call, times in first.times(back).items():
            some = points(times, 1 if back else FEW)
            if call in CHANGES:
                each = range(1, times + 1) if all_of_it and call not in SYNCS else some
                tasks += [(back, call, KILL, when, 0) for when in each]
            if not all_of_it:
                tasks += [(back, call, f"error={error_for(call)}", when, 0) for when in points(times, 1)]
            elif call == "write":
                # Each of the journal ends the run, whatever the error.
                tasks += [(back, call, f"error={error_for(call, when)}", when, 0) for when in range(1, times + 1)]
            else:
                # A call that is made again when a signal came into it must not have one come into it each time.
                step = max(APART, -(-times // AT_ONCE))
                tasks += [(back, call, f"error={error}", 1 + at, step) for error in ERRORS for at in range(min(step, times))]
    # Each has a tree of its own; a kill waits for nobody.
    with multiprocessing.Pool(initializer=remember, initargs=(program, killer, folder, action)) as pool:
        return list(pool.imap_unordered(work, tasks))


def without_power(program, killer, disk, action, all_of_it):
    """Killed, and what was not on disk then is gone: as counts."""
    score = Score(program, killer, disk.top / "tree-of-it", action, disk)
    score.clear()
    for back in ways(action):
        for call, times in score.times(back).items():
            for when in points(times, MANY_LOSSES if all_of_it else 1) if call in CHANGES else []:
                score.disturb(back, call, POWER, when, 0)
    return score.counts()


def ways(action):
    return [None, *BACK[: None if action == "remove" else -1]]


class Broken(Exception):
    """What is to be disturbed does not even work when it is not."""


def remember(*what):
    global given
    given = what


@functools.cache
def score():
    """Of this process, which has a tree of its own."""
    program, killer, folder, action = given
    return Score(program, killer, folder / str(os.getpid()), action)


def work(task):
    """What came of one task, as counts."""
    back, call, what, when, step = task
    mine = score()
    mine.clear()
    # A run that ends at a call that fails has not come to the next one.
    while (cut_off_after := mine.disturb(back, call, what, when, step)) and step:
        when += cut_off_after * step
    return mine.counts()


def error_for(call, turn=0):
    """Of the errors: another one for each call."""
    return ERRORS[((CHANGES + READS).index(call) + turn) % len(ERRORS)]


def points(times, few):
    """So many of them, from the middle of as many equal parts."""
    return [1 + (2 * at + 1) * times // (2 * few) for at in range(few)] if times > few else list(range(1, times + 1))


class Score:
    def __init__(self, program, killer, folder, action, disk=None):
        self.program, self.killer, self.folder, self.action, self.disk = program, killer, folder, action, disk
        folder.mkdir()
        self.clear()
        self.tree, self.data = folder / "tree", folder / "data"
        self.master = folder / "master"
        make(self.master)
        self.renew()
        self.before = manifest(self.tree)
        self.keepers, self.victims = planned(self.folder / "plan", self.before)
        run = self.run(self.apply())
        if run.returncode not in ((0, 3) if action == "reflink" else (0,)):
            raise Broken(f"a run that nobody disturbed ended with {run.returncode}: {run.stderr}")
        self.done = self.shape()

    def renew(self):
        """The tree as it was, and a plan for it: what a plan knows of files is not true of copies."""
        for path in (self.tree, self.data, self.folder / "aside", self.folder / "moved"):
            shutil.rmtree(path, ignore_errors=True)
        subprocess.run(["cp", "-a", self.master, self.tree], check=True)
        (self.folder / "aside").mkdir()
        (self.folder / "moved").mkdir()
        # Links are made file by file.
        whole = ["--folders"] if self.action in ("remove", "move") else []
        made = self.run([self.program, "plan", "tree", "-o", "plan", *whole])
        if made.returncode != 0:
            raise Broken(f"no plan: {made.stderr}")

    def run(self, command):
        env = {**os.environ, "XDG_DATA_HOME": str(self.data)}
        return subprocess.run(
            [*command, "--no-config"], cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT
        )

    def apply(self):
        # One thread, so that calls come in the same order each time.
        command = [self.program, "apply", self.action, "--plan", "plan", "--execute", "--threads", "1", "--progress", "never"]
        more = {"remove": ["--quarantine", "aside"], "move": ["--to", "moved"]}
        return command + more.get(self.action, [])

    def clear(self):
        self.runs = self.calls = self.lost = self.stuck = self.changed = self.undo = self.wrong = 0

    def counts(self):
        return self.runs, self.calls, self.lost, self.stuck, self.changed, self.undo, self.wrong

    def times(self, back):
        """How often a run makes each call, of those that it makes."""
        command = self.ready(back)
        log = self.folder / "strace.log"
        self.run([*STRACE, "-o", log, "-e", f"trace={','.join(CHANGES + READS)}", *command])
        lines = [line.split(" ", 1)[-1].lstrip() for line in log.read_text(errors="replace").splitlines()]
        counted = {call: sum(line.startswith(f"{call}(") for line in lines) for call in CHANGES + READS}
        return {call: times for call, times in counted.items() if times}

    def ready(self, back):
        """The command that is to be disturbed, with all that it takes: an action, or a way back from one."""
        self.renew()
        if back is None:
            return self.apply()
        if back[0] == "recover":
            self.cut_off()
        else:
            self.run(self.apply())
        return [self.program, *back]

    def disturb(self, back, call, what, when, step):
        """At that call, and with a step at each so many after it. If that has ended the run: after how many of them."""
        command = self.ready(back)
        log = self.folder / "strace.log"
        at = f"{when}+{step}" if step else when
        if what in (KILL, POWER):
            if self.disk:
                self.disk.sync()
            ended = self.run([self.killer, call, str(when), *command])
            failed = ended.returncode == KILLED
            if what == POWER:
                self.disk.lose_power()
        else:
            trace = [*STRACE, "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={at}"]
            ended = self.run([*trace, *command])
            failed = log.read_text(errors="replace").count("(INJECTED)")
        at = f"{what} at {call} {at} of {' '.join(back or ['apply'])} of {self.action}"
        if not failed:
            # Of a run that calls go on failing in, others may not have come so far.
            self.wrong += not step
            if not step:
                print(f"NOT DISTURBED by {at}: {ended.returncode}: {ended.stderr}")
            return 0
        self.runs += 1
        self.calls += failed
        if ended.returncode not in (0, 2, 3, KILLED, 127):
            self.wrong += 1
            print(f"ENDED WITH {ended.returncode} after {at}: {ended.stderr}")
        if problem := self.missing():
            self.lost += 1
            print(f"LOST after {at}: {problem}")
        self.go_back_on(command, at) if back else self.go_on(at)
        return failed

    def go_on(self, at):
        first = []
        if self.runs % 2 == 0:
            first.append(self.run([self.program, "recover", "roll-back"]))
            # What was done before the run that was cut off is for undo.
            if self.is_open() or self.missing():
                self.stuck += 1
                print(f"NOT ROLLED BACK after {at}: {self.missing()}: {first[0].stderr[-300:]}")
        first += [self.run([self.program, "recover", "finish"]), self.run(self.apply())]
        if any(run.returncode not in (0, 3) for run in first):
            self.wrong += 1
            print(f"RECOVERED WITH {[run.returncode for run in first]} after {at}")
        if problem := self.missing() or self.differs(self.done, self.shape()):
            self.stuck += 1
            print(f"NOT CONVERGED after {at}: {problem}: {[(run.returncode, run.stderr[-300:]) for run in first]}")
        after = manifest(self.folder, but=("data", "strace.log", "plan"))
        self.run([self.program, "recover", "finish"])
        self.run(self.apply())
        if problem := self.differs(after, manifest(self.folder, but=("data", "strace.log", "plan"))):
            self.changed += 1
            print(f"CHANGED after {at}: {problem}")
        self.take_back(at)

    def cut_off(self):
        """In the middle of a batch, of which some is done and some is not."""
        call = {"hardlink": "linkat", "symlink": "symlinkat", "reflink": "ioctl"}.get(self.action, "renameat2")
        ended = self.run([self.killer, call, "40", *self.apply()])
        if ended.returncode != KILLED:
            raise Broken(f"a run that was to be killed ended with {ended.returncode}: {ended.stderr}")

    def go_back_on(self, command, at):
        # An undo that could not put a file back keeps it: asked again it can.
        again = [self.run([self.program, "recover", "finish"]), self.run(command), self.run([self.program, "recover", "finish"])]
        if self.is_open() or any(run.returncode not in (0, 2, 3) for run in again):
            self.stuck += 1
            print(f"STILL OPEN after {at}: {[(run.returncode, run.stderr[-300:]) for run in again]}")
        if "purge-quarantine" in command:
            left = manifest(self.folder / "aside").values()
            if any(entry["sha"] for entry in left) or self.differs(self.done, self.shape()):
                self.stuck += 1
                print(f"NOT PURGED after {at}: {[(run.returncode, run.stderr[-300:]) for run in again]}")
            return
        self.take_back(at)

    def is_open(self):
        return any(run["interrupted"] for run in json.loads(self.run([self.program, "log", "--json"]).stdout)["runs"])

    def take_back(self, at):
        log = json.loads(self.run([self.program, "log", "--json"]).stdout)
        for _ in log["runs"]:
            self.run([self.program, "undo"])
        if problem := self.differs(files(self.before), files(manifest(self.tree))):
            self.undo += 1
            print(f"UNDO DIFFERS after {at}: {problem}")

    def missing(self):
        """What is not there that has to be there at any moment; None: nothing."""
        now = manifest(self.tree)
        aside = {entry["sha"] for entry in manifest(self.folder, but=("tree", "master", "data", "plan", "strace.log")).values()}
        here = aside | {entry["sha"] for entry in now.values()}
        for path, entry in self.before.items():
            if path in self.keepers or path not in self.victims and not entry["folder"]:
                found = now.get(path)
                if found is None or (found["sha"], found["mode"], found["mtime"]) != (entry["sha"], entry["mode"], entry["mtime"]):
                    return f"{path} has to stay, and is {found}"
            if entry["sha"] and entry["sha"] not in here:
                return f"the content of {path} is nowhere"
            if self.action.endswith("link") and path in self.victims and now.get(path, {}).get("sha") != entry["sha"]:
                return f"{path} is missing, or has other bytes"
        return None

    def shape(self):
        """What a tree is like when all is done: no temporary names, and each path with what it is. A link is the file
        that it leads to, by whichever of its names."""
        found = manifest(self.tree)
        top = f"{self.tree}/"

        def led_to(entry):
            target = found.get((entry["link"] or "").removeprefix(top))
            return target["same"] if target else entry["link"]

        return {path: (entry["sha"], led_to(entry), entry["same"]) for path, entry in found.items()}

    @staticmethod
    def differs(expected, found):
        if expected == found:
            return None
        paths = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
        return f"{len(paths)} paths: {paths[0]}: {expected.get(paths[0])} is {found.get(paths[0])}"


def make(tree):
    """Sets of two, some of three and four; some files with two names, empty ones, ones that are alone."""
    for n in range(SETS):
        content = f"set {n} ".encode() * (1 + n * n % 700)
        for copy in range(2 + (n % 5 == 0) + (n % 10 == 0)):
            folder = tree / f"in-{(n + copy) % 11}" / f"deep-{copy}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"file-{n}"
            path.write_bytes(content)
            os.chmod(path, 0o640)
            os.utime(path, ns=(10**18 + n, 10**18 + n))
            if n % 17 == 0 and copy == 1:
                os.link(path, folder / f"further-{n}")
        (tree / f"in-{n % 11}" / f"alone-{n}").write_bytes(f"alone {n}".encode())
    # Folders that are equal, one of them within another one, and one that has more.
    for top in ("whole", "wholly/again", "zoo"):
        for n in range(4):
            path = tree / top / f"part-{n % 2}" / f"page-{n}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"page {n} ".encode() * 500)
            os.utime(path, ns=(10**18, 10**18))
        (tree / top / "part-0" / "none").write_bytes(b"")
    (tree / "zoo" / "more").write_bytes(b"more")
    for folder, _, _ in os.walk(tree):
        os.utime(folder, ns=(10**18, 10**18))


def manifest(root, but=()):
    """Of each path what is there, by code that has nothing to do with the program."""
    found, first = {}, {}
    folders = [(str(root), "", but)]
    while folders:
        folder, short, without = folders.pop()
        # Whichever order the file system has them in: the first name of a file is the first.
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name in without:
                continue
            about, name = entry.stat(follow_symlinks=False), short + entry.name
            is_link, is_folder = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
            sha = None
            if entry.is_file():
                with open(entry.path, "rb") as file:
                    sha = hashlib.sha256(file.read()).hexdigest()
            if is_folder:
                folders.append((entry.path, f"{name}/", ()))
            found[name] = {
                "sha": sha, "mode": about.st_mode, "owner": (about.st_uid, about.st_gid),
                "mtime": None if is_link else about.st_mtime_ns,
                "link": os.readlink(entry.path) if is_link else None, "folder": is_folder,
                "same": None if is_folder else first.setdefault((about.st_dev, about.st_ino), name),
            }
    return found


def files(found):
    """Of folders only that they are there: their times are given back only where nobody was in between."""
    return {path: {**entry, "mtime": None} if entry["folder"] else entry for path, entry in found.items()}


def planned(plan, before):
    """Paths that stay and paths that go, with all that is in them."""
    stay, go = set(), set()
    for line in plan.read_text().splitlines()[1:-1]:
        entry = json.loads(line)
        for paths, members in ((stay, entry["keepers"]), (go, entry["victims"])):
            for name in (name["path"] for member in members for name in member["names"]):
                paths.update(path for path in before if path == name or path.startswith(name + "/"))
    return {path for path in stay if not before[path]["folder"]}, go
