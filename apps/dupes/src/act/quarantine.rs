//! Where removed files wait: a folder on their own mount, which only we may enter.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, StatxFlags, accessat, fstat, mkdirat, openat, statx,
};
use rustix::io::Errno;

use super::ground::Base;
use super::sync::sync_folder;
use super::why::Why;
use crate::escape::escaped;

/// What the name of every quarantine begins with: nobody looks for duplicates in there.
pub const NAME: &[u8] = b".dupes-quarantine-";

/// Whether a path is that of a quarantine, of whomever, or lies in one. In full, and without links.
pub fn holds(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name.starts_with(NAME))
}

/// What a file can be renamed within: a mount, and of that one file system. Of btrfs a mount may show several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mount {
    id: u64,
    device: u64,
}

/// The mount that a folder is of.
pub fn mount_of(folder: impl AsFd) -> Result<Mount, Why> {
    let failed = |error| Why::Failed("ask for its mount", error);
    let device = fstat(&folder).map_err(failed)?.st_dev;
    let found = statx(&folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(failed)?;
    // An old kernel does not know: then another mount of the same file system shows when it is renamed to.
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Ok(Mount { id: if is_known { found.stx_mnt_id } else { 0 }, device })
}

/// Those of one run.
#[derive(Debug)]
pub struct Quarantines {
    /// Its folder in each. None: it only looks where one could be.
    id: Option<String>,
    /// Somebody has said where.
    chosen: Option<Vec<u8>>,
    by_mount: HashMap<Mount, Option<Base>>,
}

impl Quarantines {
    /// For a run of this name; in this folder and nowhere else, if somebody has chosen one.
    pub fn new(id: &str, chosen: Option<Vec<u8>>) -> Quarantines {
        Quarantines { id: Some(id.to_owned()), chosen, by_mount: HashMap::new() }
    }

    /// For who only looks.
    pub fn rehearsed(chosen: Option<Vec<u8>>) -> Quarantines {
        Quarantines { id: None, chosen, by_mount: HashMap::new() }
    }

    /// For files of that mount, of which one lies in `folder`. The topmost folder above it on the same mount in
    /// which one can be made is the place; none that lies below one of `never`.
    pub fn of(&mut self, mount: Mount, folder: &[u8], never: &[Vec<u8>]) -> Result<Base, Why> {
        let base = self.find(mount, folder, never)?;
        Ok(base.expect("who does not only look has a name"))
    }

    /// Whether there could be one.
    pub fn could(&mut self, mount: Mount, folder: &[u8], never: &[Vec<u8>]) -> Result<(), Why> {
        self.find(mount, folder, never).map(drop)
    }

    /// What can't be for one file of a mount may be for the next: that is deeper, or elsewhere.
    fn find(
        &mut self,
        mount: Mount,
        folder: &[u8],
        never: &[Vec<u8>],
    ) -> Result<Option<Base>, Why> {
        if let Some(known) = self.by_mount.get(&mount) {
            return Ok(known.clone());
        }
        let is_below = |above: &[u8]| never.iter().any(|it| crate::plan::is_below(above, it));
        let id = self.id.as_deref();
        let found = match &self.chosen {
            Some(chosen) if is_below(chosen) => Err("it lies below a reference".to_owned()),
            Some(chosen) => in_folder(chosen, mount, id).and_then(|found| {
                found.ok_or_else(|| "it is on another file system, or another mount".to_owned())
            }),
            None => {
                let mut found = Err("no folder above it may be written to".to_owned());
                for above in crate::plan::ways_to(folder).filter(|above| !is_below(above)) {
                    match in_folder(above, mount, id) {
                        Ok(Some(base)) => {
                            found = Ok(base);
                            break;
                        }
                        Ok(None) => {}
                        Err(why) => found = Err(format!("{}: {why}", escaped(above))),
                    }
                }
                found
            }
        };
        let found = found.map_err(|why| match &self.chosen {
            Some(chosen) => Why::NoQuarantine(format!("{}: {why}", escaped(chosen))),
            None => Why::NoQuarantine(why),
        })?;
        self.by_mount.insert(mount, found.clone());
        Ok(found)
    }
}

/// None: it is not on that mount. Without an `id` nothing is made.
fn in_folder(above: &[u8], mount: Mount, id: Option<&str>) -> Result<Option<Option<Base>>, String> {
    let said = |error: Errno| std::io::Error::from(error).to_string();
    let top = openat(CWD, OsStr::from_bytes(above), FOLDER, Mode::empty()).map_err(said)?;
    if mount_of(&top).map_err(|why| why.to_string())? != mount {
        return Ok(None);
    }
    let us = rustix::process::geteuid().as_raw();
    let found = fstat(&top).map_err(said)?;
    // Who may rename in it could take it away, and put another one in its place.
    let others = if found.st_uid == us && us != 0 { 0o002 } else { 0o022 };
    if found.st_uid != us && found.st_uid != 0 {
        return Err("belongs to somebody else, who could take it away".into());
    }
    if found.st_mode & others != 0 && found.st_mode & 0o1000 == 0 {
        return Err("others may write to it, who could take it away".into());
    }
    let name = [NAME, us.to_string().as_bytes()].concat();
    let Some(id) = id else {
        match openat(&top, OsStr::from_bytes(&name), FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => may_change(&top).map_err(said)?,
            opened => is_ours(&opened.map_err(said)?, mount, &name)?,
        }
        return Ok(Some(None));
    };
    let quarantine = match make_folder(&top, &name) {
        Err(Errno::EXIST) => {
            openat(&top, OsStr::from_bytes(&name), FOLDER, Mode::empty()).map_err(said)?
        }
        made => made.map_err(said)?,
    };
    is_ours(&quarantine, mount, &name)?;
    // Of this run alone: what is there is somebody else's.
    let run = make_folder(&quarantine, id.as_bytes()).map_err(said)?;
    let mut path = above.to_vec();
    crate::folders::join(&mut path, &name);
    crate::folders::join(&mut path, id.as_bytes());
    Base::at(path, &run).map(|base| Some(Some(base))).map_err(said)
}

fn is_ours(quarantine: &OwnedFd, mount: Mount, name: &[u8]) -> Result<(), String> {
    let found = fstat(quarantine).map_err(|error| std::io::Error::from(error).to_string())?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        let name = escaped(name);
        return Err(format!(
            "{name} is there, and others may enter it: it must be yours, and 0700"
        ));
    }
    if mount_of(quarantine).map_err(|why| why.to_string())? != mount {
        return Err("another file system is mounted there".into());
    }
    Ok(())
}

/// Whether names in it may be made and taken away, as far as the kernel says it beforehand.
pub(super) fn may_change(folder: &OwnedFd) -> rustix::io::Result<()> {
    accessat(folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// For us alone, durably.
fn make_folder(top: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let name = OsStr::from_bytes(name);
    super::steps::again(|| mkdirat(top, name, Mode::RWXU))?;
    sync_folder(top)?;
    openat(top, name, FOLDER, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn from_the_top_down() {
        let all = |path: &str| {
            crate::plan::ways_to(path.as_bytes())
                .map(|it| String::from_utf8(it.into()).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(all("/"), ["/"]);
        assert_eq!(all("/a"), ["/", "/a"]);
        assert_eq!(all("/a/bc"), ["/", "/a", "/a/bc"]);
    }

    #[test]
    fn it_is_ours_alone_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let path = top.as_os_str().as_bytes();
        let mount = mount_of(std::fs::File::open(&top).unwrap()).unwrap();
        let make = |mount, id| in_folder(path, mount, Some(id)).map(Option::flatten);
        let look = |mount| in_folder(path, mount, None).map(|found| found.is_some());
        assert_eq!(look(mount), Ok(true));
        assert_eq!(std::fs::read_dir(&top).unwrap().count(), 0, "who looks makes nothing");
        let made = make(mount, "1").unwrap().unwrap();
        let us = rustix::process::geteuid().as_raw();
        let quarantine = top.join(format!(".dupes-quarantine-{us}"));
        let found = std::fs::metadata(&quarantine).unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (0o700, us));
        assert_eq!(OsStr::from_bytes(&made.path), quarantine.join("1"));
        assert!(make(mount, "1").is_err(), "a run has a folder of its own");
        assert!(make(mount, "2").unwrap().is_some());
        // One mount may show two file systems.
        for other in [Mount { id: mount.id + 1, ..mount }, Mount { device: 0, ..mount }] {
            assert_eq!((make(other, "3"), look(other)), (Ok(None), Ok(false)), "another mount");
        }

        std::fs::set_permissions(&quarantine, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(make(mount, "3").unwrap_err().contains("0700"));
        assert!(look(mount).unwrap_err().contains("0700"));
        std::fs::remove_dir_all(&quarantine).unwrap();
        symlink("/", &quarantine).unwrap();
        assert!(make(mount, "3").is_err() && look(mount).is_err(), "a link");
        std::fs::remove_file(&quarantine).unwrap();
        for (mode, is_fine) in [(0o777, false), (0o1777, true), (0o1775, true), (0o755, true)] {
            std::fs::set_permissions(&top, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(look(mount).is_ok(), is_fine, "{mode:o}: others could take it away");
        }
        // Of a group that root shares a folder with.
        std::fs::set_permissions(&top, PermissionsExt::from_mode(0o2775)).unwrap();
        assert_eq!(look(mount).is_ok(), us != 0);
        assert_eq!(make(mount, "3").is_ok(), us != 0);
    }

    #[test]
    fn a_file_that_can_have_none_refuses_it_to_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let mount = mount_of(std::fs::File::open(&top).unwrap()).unwrap();
        let path = top.as_os_str().as_bytes().to_vec();
        let (never, chosen) = ([b"/".to_vec()], Some(path.clone()));
        for mut all in [Quarantines::new("1", chosen.clone()), Quarantines::rehearsed(chosen)] {
            assert!(all.find(mount, &path, &never).is_err());
            assert!(all.find(mount, &path, &[]).is_ok());
        }
    }

    #[test]
    fn none_is_made_below_a_reference() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let path = top.as_os_str().as_bytes().to_vec();
        let mount = mount_of(std::fs::File::open(&top).unwrap()).unwrap();
        // Whoever may write to `/` has one there; not if all of it is only compared with.
        let made = Quarantines::new("1", None).of(mount, &path, &[b"/".to_vec()]);
        assert!(matches!(made, Err(Why::NoQuarantine(_))), "{made:?}");
    }
}
