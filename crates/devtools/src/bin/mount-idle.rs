//! A FUSE file system that stores nothing, as a reference for the cost of FUSE itself. It has one file, `f`, of a given
//! size: reads return zeros, writes are discarded. The crate `fuser` serves it. Usage: `mount-idle DIR MIB THREADS`.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};

const LONG: Duration = Duration::from_secs(3600);
const MAX_IO: usize = 1 << 20;

struct Idle {
    size: AtomicU64,
    zeros: Vec<u8>,
}

impl Idle {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let directory = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if directory { 0 } else { self.size.load(Ordering::Relaxed) },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 16384,
            flags: 0,
        }
    }
}

impl Filesystem for Idle {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(MAX_IO as u32);
        let _ = config.set_max_readahead(MAX_IO as u32);
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "f" {
            reply.entry(&LONG, &self.attr(INodeNo(2)), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attr(ino));
    }

    #[allow(clippy::too_many_arguments)]
    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let Some(size) = size {
            self.size.store(size, Ordering::Relaxed);
        }
        reply.attr(&LONG, &self.attr(ino));
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&self.zeros[..size as usize]);
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.size.fetch_max(offset + data.len() as u64, Ordering::Relaxed);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _offset: u64, reply: ReplyDirectory) {
        reply.ok();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, mib, threads] = args.as_slice() else {
        eprintln!("usage: mount-idle DIR MIB THREADS");
        std::process::exit(2);
    };
    let size: u64 = mib.parse::<u64>().expect("MIB is a number") << 20;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("idle".into()), MountOption::DefaultPermissions];
    config.acl = SessionACL::All;
    config.n_threads = Some(threads.parse().expect("THREADS is a number"));
    config.clone_fd = true;
    fuser::mount(Idle { size: AtomicU64::new(size), zeros: vec![0; MAX_IO] }, dir, &config)
        .expect("mounting");
}
