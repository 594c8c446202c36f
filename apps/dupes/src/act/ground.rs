//! Where files are, and how they are reached: a root, and the way below it. Whatever is opened here was reached
//! without following a link and without leaving its root, so a folder that was swapped for a link
//! meanwhile leads nowhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags, fstat,
    openat, openat2, statat, statx,
};
use rustix::io::Errno;

use super::facts::{Facts, Time};
use super::why::Why;

/// A name: the number of a root, and the way from there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its number in a [`Ground`].
    pub root: usize,
    /// Names with slashes between them; none is empty, `.` or `..`.
    pub path: Vec<u8>,
}

impl Place {
    /// None if the way is not one that leads down, and only down.
    pub fn new(root: usize, path: Vec<u8>) -> Option<Place> {
        let leads_down = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        path.split(|byte| *byte == b'/').all(leads_down).then_some(Place { root, path })
    }

    /// The way to its folder, empty for the root itself, and its name there.
    pub fn split(&self) -> (&[u8], &OsStr) {
        let at = self.path.iter().rposition(|byte| *byte == b'/');
        let folder = at.map_or(&[][..], |at| &self.path[..at]);
        (folder, OsStr::from_bytes(&self.path[at.map_or(0, |at| at + 1)..]))
    }

    /// The same folder, another name.
    pub fn beside(&self, name: &[u8]) -> Place {
        let (folder, _) = self.split();
        let mut path = folder.to_vec();
        crate::folders::join(&mut path, name);
        Place { root: self.root, path }
    }
}

/// A folder that everything below it is reached from, as it was when it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// From `/` on, without links.
    pub path: Vec<u8>,
    /// By these it is known again: an empty mount point is another folder.
    pub device: u64,
    /// See `device`.
    pub inode: u64,
    /// When it was made, where the file system says so: the topmost folders of two disks have the same inode.
    pub birth: Option<Time>,
}

impl Base {
    /// As it is now.
    pub fn of(path: Vec<u8>) -> io::Result<Base> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, OsStr::from_bytes(&path), flags, Mode::empty())?;
        Ok(Base::at(path, opened)?)
    }

    /// Of a folder that is open, by its path.
    pub fn at(path: Vec<u8>, folder: impl AsFd) -> rustix::io::Result<Base> {
        let stat = fstat(&folder)?;
        let found = statx(&folder, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let birth = is_known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        Ok(Base { path, device: stat.st_dev, inode: stat.st_ino, birth })
    }
}

/// Bases that are open.
#[derive(Debug, Default)]
pub struct Ground {
    bases: Vec<(Base, Result<OwnedFd, Why>)>,
}

impl Ground {
    /// Opens them. One that is not there, or not what it was, is an error for whoever wants to go there.
    pub fn new(bases: impl IntoIterator<Item = Base>) -> Ground {
        let mut ground = Ground::default();
        for base in bases {
            ground.add(base);
        }
        ground
    }

    /// One more; its number.
    pub fn add(&mut self, base: Base) -> usize {
        let opened = open_base(&base);
        self.bases.push((base, opened));
        self.bases.len() - 1
    }

    /// All of them.
    pub fn bases(&self) -> impl ExactSizeIterator<Item = &Base> {
        self.bases.iter().map(|(base, _)| base)
    }

    /// The number of one that is known.
    pub fn number(&self, base: &Base) -> Option<usize> {
        self.bases.iter().position(|(known, _)| known == base)
    }

    /// In full, for people.
    pub fn path(&self, place: &Place) -> Vec<u8> {
        let mut path = self.bases[place.root].0.path.clone();
        crate::folders::join(&mut path, &place.path);
        path
    }

    /// The folder that a name is in.
    pub fn folder(&self, place: &Place) -> Result<OwnedFd, Why> {
        let base = self.bases[place.root].1.as_ref().map_err(Clone::clone)?;
        let (folder, _) = place.split();
        beneath(base, folder).map_err(|error| match error {
            Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Why::FolderIsLink,
            Errno::NOENT => Why::Gone,
            error => Why::Failed("open its folder", error),
        })
    }
}

fn open_base(base: &Base) -> Result<OwnedFd, Why> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, OsStr::from_bytes(&base.path), flags, Mode::empty());
    let opened = opened.map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => Why::OtherRoot,
        error => Why::Failed("open its root", error),
    })?;
    let stat = fstat(&opened).map_err(|error| Why::Failed("look at its root", error))?;
    let same = (stat.st_dev, stat.st_ino) == (base.device, base.inode);
    if same { Ok(opened) } else { Err(Why::OtherRoot) }
}

/// A folder that can be listed and synced. Mounts below are crossed, links are not followed.
pub(super) fn beneath(base: &OwnedFd, way: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = if way.is_empty() { &b"."[..] } else { way };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = loop {
        match openat2(base, OsStr::from_bytes(path), flags, Mode::empty(), resolve) {
            // Somebody renames folders just now.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => break opened,
        }
    };
    match opened {
        // An old kernel, or a sandbox that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(base, way),
        opened => opened,
    }
}

fn step_by_step(base: &OwnedFd, way: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(base, ".", flags, Mode::empty())?;
    for name in way.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        folder = openat(&folder, OsStr::from_bytes(name), flags, Mode::empty())?;
    }
    Ok(folder)
}

/// What is at a name, without following it; None: nothing is.
pub fn look(folder: impl AsFd, name: &OsStr) -> Result<Option<Stat>, Why> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Why::Failed("look at it", error)),
    }
}

/// In a folder to which one may only add (`chattr +a`), or that may not be changed (`+i`), a link can be made, but
/// neither put in its place nor taken away.
pub fn may_rename_in(folder: impl AsFd) -> Result<(), Why> {
    let fixed = StatxAttributes::APPEND | StatxAttributes::IMMUTABLE;
    match statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::empty()) {
        Ok(found) if found.stx_attributes.intersects(fixed) => {
            Err(Why::Failed("rename it in its folder (chattr +a or +i)", Errno::PERM))
        }
        // Where nobody can say, it is seen when it is done.
        _ => Ok(()),
    }
}

/// Opens a regular file to read it, as it is now. Waits for nobody, and leaves its access time alone
/// where that may be done.
pub fn open_file(folder: impl AsFd, name: &OsStr) -> Result<(File, Facts), Why> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // What is no file is not even opened: a device may do something then.
    let seen = look(&folder, name)?.ok_or(Why::Gone)?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err(Why::NotAFile);
    }
    let mut opened = openat(&folder, name, flags | OFlags::NOATIME, Mode::empty());
    if matches!(opened, Err(Errno::PERM)) {
        opened = openat(&folder, name, flags, Mode::empty());
    }
    let file = File::from(opened.map_err(|error| match error {
        Errno::NOENT => Why::Gone,
        Errno::LOOP => Why::NotAFile,
        error => Why::Failed("open it", error),
    })?);
    let facts = Facts::of(&file)?;
    // It was swapped for something else in between.
    let stat = fstat(&file).map_err(|error| Why::Failed("look at it", error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Why::NotAFile);
    }
    Ok((file, facts))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn ground(path: &std::path::Path) -> Ground {
        let path = path.canonicalize().unwrap();
        Ground::new([Base::of(path.as_os_str().as_bytes().to_vec()).unwrap()])
    }

    fn place(path: &str) -> Place {
        Place::new(0, path.into()).unwrap()
    }

    #[test]
    fn a_way_leads_only_down() {
        for wrong in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\0b"] {
            assert_eq!(Place::new(0, wrong.into()), None, "{wrong:?}");
        }
        let place = place("a/b/c");
        assert_eq!(place.split(), (&b"a/b"[..], OsStr::new("c")));
        assert_eq!(place.beside(b"d").path, b"a/b/d");
        assert_eq!(Place::new(0, b"x".into()).unwrap().split(), (&b""[..], OsStr::new("x")));
    }

    #[test]
    fn a_folder_that_was_swapped_for_a_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (root, other) = (dir.path().join("root"), dir.path().join("other"));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(other.join("b")).unwrap();
        let ground = ground(&root);
        assert!(ground.folder(&place("a/b/file")).is_ok());
        std::fs::rename(root.join("a"), root.join("c")).unwrap();
        symlink(&other, root.join("a")).unwrap();
        assert!(matches!(ground.folder(&place("a/b/file")), Err(Why::FolderIsLink)));
        assert!(matches!(ground.folder(&place("none/file")), Err(Why::Gone)));
        // The same without openat2.
        let base = ground.bases[0].1.as_ref().unwrap();
        assert!(step_by_step(base, b"c/b").is_ok());
        assert!(matches!(step_by_step(base, b"a/b"), Err(Errno::NOTDIR | Errno::LOOP)));
        assert_eq!(step_by_step(base, b"none").unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn a_root_that_is_another_folder_now_is_not_entered() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let base = Base::of(root.as_os_str().as_bytes().to_vec()).unwrap();
        std::fs::rename(&root, dir.path().join("away")).unwrap();
        let folder = |base: &Base| Ground::new([base.clone()]).folder(&place("file")).unwrap_err();
        assert!(matches!(folder(&base), Why::OtherRoot), "gone");
        std::fs::create_dir(&root).unwrap();
        assert!(matches!(folder(&base), Why::OtherRoot), "as an empty mount point is");
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let ground = ground(dir.path());
        let folder = ground.folder(&place("x")).unwrap();
        rustix::fs::mknodat(&folder, "fifo", FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("fifo", dir.path().join("link")).unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        for name in ["fifo", "link", "folder"] {
            let opened = open_file(&folder, OsStr::new(name));
            assert!(matches!(opened, Err(Why::NotAFile)), "{name}");
        }
        assert!(matches!(open_file(&folder, OsStr::new("none")), Err(Why::Gone)));
    }
}
