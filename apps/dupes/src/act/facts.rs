//! What is known of a file beside its bytes: by what it is known again, and what an action may have to give back.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{
    Mode, Stat, Timespec, Timestamps, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fremovexattr, fsetxattr, fstat, futimens,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

use super::why::Why;

/// Seconds and nanoseconds.
pub type Time = (i64, u32);

/// By what a file is known again. If all of these are as they were, it was probably not changed; its bytes
/// are compared all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Of the file system.
    pub device: u64,
    /// Within that.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// When it was written to.
    pub mtime: Time,
    /// When anything about it was changed.
    pub ctime: Time,
}

impl Facts {
    /// Of what was looked at.
    pub fn new(stat: &Stat) -> Facts {
        Facts {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size.cast_unsigned(),
            mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }

    /// Of a file that is open.
    pub fn of(file: impl AsFd) -> Result<Facts, Why> {
        Ok(Facts::new(&fstat(file).map_err(|error| Why::Failed("look at it", error))?))
    }

    /// Whether it is the same file, whatever is in it.
    pub fn is_file(&self, other: &Facts) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it is the same file and was not written to. What renames it or links to it, as we do, changes
    /// its ctime only.
    pub fn is_as_written(&self, other: &Facts) -> bool {
        Facts { ctime: other.ctime, ..*self } == *other
    }
}

/// What a link to another file would take from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// With its special bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// When it was last read, and written to.
    pub times: (Time, Time),
    /// ACLs are among these.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What of it can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Aspect {
    /// Permissions
    Mode,
    /// User and group
    Owner,
    /// When it was written to
    Times,
    /// Extended attributes
    Xattrs,
    /// Access control lists
    Acls,
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aspect::Mode => "mode",
            Aspect::Owner => "owner",
            Aspect::Times => "times",
            Aspect::Xattrs => "xattrs",
            Aspect::Acls => "acls",
        })
    }
}

const ACLS: &[u8] = b"system.posix_acl_";

impl Attributes {
    /// Of a file that is open, which was looked at before it was read.
    pub fn of(file: impl AsFd, stat: &Stat) -> Result<Attributes, Why> {
        let extended = extended(file).map_err(|error| Why::Failed("read its attributes", error))?;
        Ok(Attributes {
            mode: stat.st_mode & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            times: (
                (stat.st_atime, stat.st_atime_nsec as u32),
                (stat.st_mtime, stat.st_mtime_nsec as u32),
            ),
            extended,
        })
    }

    /// In what they differ. When somebody has last looked at a file does not count.
    pub fn differences(&self, other: &Attributes) -> Vec<Aspect> {
        let part = |this: &Attributes, acls: bool| {
            let is_one = |name: &[u8]| name.starts_with(ACLS);
            let some = this.extended.iter().filter(|(name, _)| is_one(name) == acls);
            some.cloned().collect::<Vec<_>>()
        };
        let all = [
            (Aspect::Mode, self.mode != other.mode),
            (Aspect::Owner, self.owner != other.owner),
            (Aspect::Times, self.times.1 != other.times.1),
            (Aspect::Xattrs, part(self, false) != part(other, false)),
            (Aspect::Acls, part(self, true) != part(other, true)),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(aspect, _)| aspect).collect()
    }

    /// Whether we may give a file of ours to this user and group.
    pub fn may_give_owner(&self) -> bool {
        let (user, group) = self.owner;
        let (ours, our_group) = (geteuid(), getegid());
        let is_ours = || our_group.as_raw() == group || in_groups(group);
        ours.is_root() || ours.as_raw() == user && is_ours()
    }

    /// Gives them to a new file of ours. Its owner first: to change that takes special bits away. Then what
    /// only who may write to it can give; then its mode, which may take that away; ACLs change the mode, and so
    /// come after it. The times last.
    pub fn give_to(&self, file: impl AsFd) -> Result<(), Why> {
        let step =
            |what, done: rustix::io::Result<()>| done.map_err(|error| Why::Failed(what, error));
        let (user, group) = self.owner;
        let now = fstat(&file).map_err(|error| Why::Failed("look at it", error))?;
        if (now.st_uid, now.st_gid) != self.owner {
            let user = rustix::fs::Uid::from_raw(user);
            let group = rustix::fs::Gid::from_raw(group);
            step("give back its owner", fchown(&file, Some(user), Some(group)))?;
        }
        let give = |acls: bool| {
            let some = self.extended.iter().filter(|(name, _)| name.starts_with(ACLS) == acls);
            some.into_iter().try_for_each(|(name, value)| {
                let name = OsStr::from_bytes(name);
                step("give back an attribute", fsetxattr(&file, name, value, XattrFlags::empty()))
            })
        };
        give(false)?;
        // A folder may give new files a list of its own.
        let is_given = |name: &[u8]| self.extended.iter().any(|(given, _)| given == name);
        let now = extended(&file).map_err(|error| Why::Failed("read its attributes", error))?;
        for (name, _) in now.iter().filter(|(name, _)| name.starts_with(ACLS) && !is_given(name)) {
            let removed = fremovexattr(&file, OsStr::from_bytes(name));
            step("take an access list from it that it did not have", removed)?;
        }
        step("give back its mode", fchmod(&file, Mode::from_raw_mode(self.mode)))?;
        give(true)?;
        step("give back its times", set_times(&file, self.times))
    }
}

/// Whether we are a member.
fn in_groups(group: u32) -> bool {
    getgroups().is_ok_and(|all| all.iter().any(|it| it.as_raw() == group))
}

/// When it was last read, and written to.
pub fn set_times(file: impl AsFd, (access, written): (Time, Time)) -> rustix::io::Result<()> {
    let time = |(tv_sec, nanoseconds): Time| Timespec { tv_sec, tv_nsec: nanoseconds.into() };
    futimens(file, &Timestamps { last_access: time(access), last_modification: time(written) })
}

/// By name. Where there is no such thing there are none.
fn extended(file: impl AsFd) -> rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = match whole(|buffer| flistxattr(&file, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        names => names?,
    };
    let mut all = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsString::from_vec(name.to_vec());
        match whole(|buffer| fgetxattr(&file, &name, buffer)) {
            // It went in between, or is not for us to see.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS) => {}
            value => all.push((name.into_vec(), value?)),
        }
    }
    all.sort();
    Ok(all)
}

/// With a buffer that grows until all of it fits. (What an empty one would tell is how long it is; the wrapper
/// tells how much of that is in the buffer.)
fn whole(
    mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 10];
    loop {
        match ask(&mut bytes) {
            Err(Errno::RANGE) if bytes.len() < LONGEST => bytes.resize(8 * bytes.len(), 0),
            len => {
                bytes.truncate(len?);
                return Ok(bytes);
            }
        }
    }
}

/// More than any attribute, or all of their names together.
const LONGEST: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        Attributes {
            mode: 0o644,
            owner: (1, 2),
            times: ((1, 0), (2, 5)),
            extended: vec![
                (b"system.posix_acl_access".to_vec(), b"x".to_vec()),
                (b"user.a".to_vec(), b"1".to_vec()),
            ],
        }
    }

    #[test]
    fn each_difference_is_named() {
        let base = attributes();
        let differs = |change: fn(&mut Attributes)| {
            let mut other = attributes();
            change(&mut other);
            base.differences(&other)
        };
        assert_eq!(differs(|_| ()), []);
        assert_eq!(differs(|it| it.times.0 = (9, 9)), [], "who reads a file changes that");
        assert_eq!(differs(|it| it.mode = 0o600), [Aspect::Mode]);
        assert_eq!(differs(|it| it.owner.1 = 3), [Aspect::Owner]);
        assert_eq!(differs(|it| it.times.1 = (2, 6)), [Aspect::Times]);
        assert_eq!(differs(|it| it.extended[1].1.push(b'2')), [Aspect::Xattrs]);
        assert_eq!(differs(|it| it.extended[0].1.push(b'2')), [Aspect::Acls]);
        let all = differs(|it| {
            *it = Attributes { mode: 0, owner: (0, 0), times: ((0, 0), (0, 0)), extended: vec![] }
        });
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn what_was_taken_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        std::fs::write(&one, "text").unwrap();
        std::fs::write(&other, "text").unwrap();
        let open = |path| std::fs::File::options().read(true).write(true).open(path).unwrap();
        let (one, other) = (open(&one), open(&other));
        fchmod(&one, Mode::from_raw_mode(0o4750)).unwrap();
        for (name, value) in
            [("user.short", vec![7]), ("user.long", vec![1; 1_500]), ("user.none", vec![])]
        {
            // Where there is no such thing, the rest is as true.
            let set = fsetxattr(&one, name, &value, XattrFlags::empty());
            let Ok(()) = set else { continue };
            assert!(extended(&one).unwrap().contains(&(name.into(), value)), "{name}");
        }
        set_times(&one, ((1_000, 1), (-2_000, 999_999_999))).unwrap();
        let of = |file: &std::fs::File| Attributes::of(file, &fstat(file).unwrap()).unwrap();
        assert_ne!(of(&one), of(&other));
        of(&one).give_to(&other).unwrap();
        assert_eq!(of(&one), of(&other));
    }
}
