//! Block devices of tests, and file systems on them.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};

use crate::common::{installed, skip};

/// Runs a program; whether it succeeded.
pub fn runs(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs a program, which must succeed.
pub fn run(program: &str, args: &[&str]) {
    assert!(runs(program, args), "{program} {} failed", args.join(" "));
}

/// A block device that is removed when it is dropped.
pub struct Device {
    pub path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// A device that others made, which remains.
    Given,
    Loop,
    /// A compressed disk in memory, with its number.
    Zram(String),
}

impl Device {
    /// The device that the environment names, such as a volume, whose content is overwritten, or else a loop device on a file in `scratch`.
    pub fn of_test(scratch: &Path) -> Option<Device> {
        match std::env::var_os("POOLWRIGHT_TEST_VOLUME") {
            Some(path) => Some(Device { path: path.into(), kind: Kind::Given }),
            None => Device::on_file(&scratch.join("disk"), 256 << 20),
        }
    }

    /// Attaches a loop device, whose driver is one of requests, to a new sparse file. Prints that the test is skipped, and returns `None`, if
    /// that is not permitted.
    pub fn on_file(backing: &Path, bytes: u64) -> Option<Device> {
        if !installed("losetup") {
            return None;
        }
        fs::File::create(backing).unwrap().set_len(bytes).unwrap();
        let args = ["--find", "--show", "--partscan"];
        let output = Command::new("losetup").args(args).arg(backing).output().expect("losetup starts");
        if !output.status.success() {
            skip(format!("no loop device: {}", String::from_utf8_lossy(&output.stderr)));
            return None;
        }
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        // Where there is an udev, it reads the new device.
        runs("udevadm", &["settle"]);
        Some(Device { path, kind: Kind::Loop })
    }

    /// Creates a zram device, whose driver is one of bios, as that of volumes. Prints that the test is skipped, and returns `None`, if
    /// that is not possible.
    pub fn in_memory(bytes: u64) -> Option<Device> {
        let Ok(number) = fs::read_to_string("/sys/class/zram-control/hot_add") else {
            skip("no zram device");
            return None;
        };
        let number = number.trim().to_owned();
        let device = Device { path: PathBuf::from(format!("/dev/zram{number}")), kind: Kind::Zram(number) };
        fs::write(device.in_sysfs().join("disksize"), bytes.to_string()).unwrap();
        runs("udevadm", &["settle"]);
        Some(device)
    }

    pub fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    fn in_sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }

    /// Sets the largest request that the driver takes, in KiB. A driver of bios takes all of them.
    pub fn set_max_request(&self, kib: u32) {
        fs::write(self.in_sysfs().join("queue/max_sectors_kb"), kib.to_string()).unwrap();
    }

    /// The size of the device in bytes.
    pub fn bytes(&self) -> u64 {
        fs::read_to_string(self.in_sysfs().join("size")).unwrap().trim().parse::<u64>().unwrap() * 512
    }

    /// The kernel's counters of the device.
    pub fn counters(&self) -> Counters {
        let text = fs::read_to_string(self.in_sysfs().join("stat")).unwrap();
        let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
        Counters {
            read: fields[2] * 512,
            written: fields[6] * 512,
            in_flight: fields[8],
            discarded: fields[13] * 512,
            flushes: fields[15],
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Given => {}
            Kind::Loop => {
                runs("losetup", &["--detach", &self.path.display().to_string()]);
            }
            Kind::Zram(number) => {
                let _ = fs::write("/sys/class/zram-control/hot_remove", number);
            }
        }
    }
}

/// The kernel's counters of a block device, in bytes and requests (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    pub read: u64,
    pub written: u64,
    pub in_flight: u64,
    pub discarded: u64,
    pub flushes: u64,
}

impl Counters {
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            read: self.read - before.read,
            written: self.written - before.written,
            in_flight: self.in_flight,
            discarded: self.discarded - before.discarded,
            flushes: self.flushes - before.flushes,
        }
    }
}

/// Transfers between a device and memory, past the page cache.
pub struct Direct(fs::File);

impl Direct {
    /// Opens a device. Writes also have these flags.
    pub fn open(path: &Path, flags: OFlags) -> Direct {
        let flags = OFlags::RDWR | OFlags::DIRECT | flags;
        Direct(rustix::fs::open(path, flags, Mode::empty()).expect("open the device").into())
    }

    pub fn read(&self, at: u64, bytes: usize) {
        with_memory(bytes, |memory| self.0.read_exact_at(memory, at).expect("read the device"));
    }

    pub fn write(&self, at: u64, bytes: usize) {
        self.try_write(at, bytes).expect("write to the device");
    }

    pub fn try_write(&self, at: u64, bytes: usize) -> io::Result<()> {
        with_memory(bytes, |memory| self.0.write_all_at(memory, at))
    }

    pub fn sync(&self) {
        self.0.sync_all().expect("flush the device");
    }
}

/// Calls `transfer` with memory that starts at a page.
fn with_memory<T>(bytes: usize, transfer: impl FnOnce(&mut [u8]) -> T) -> T {
    const PAGE: usize = 4096;
    let mut memory = vec![b'x'; bytes + PAGE];
    let start = memory.as_ptr().align_offset(PAGE);
    transfer(&mut memory[start..start + bytes])
}

/// A mounted file system. It is unmounted when it is dropped.
pub struct Mounted {
    pub point: PathBuf,
}

impl Mounted {
    pub fn mount(args: &[&str], point: &Path) -> Mounted {
        fs::create_dir_all(point).unwrap();
        run("mount", &[args, &[point.to_str().unwrap()]].concat());
        Mounted { point: point.to_owned() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        runs("umount", &[self.point.to_str().unwrap()]);
    }
}

/// A frozen file system: writes to it wait until this is dropped.
pub struct Frozen(PathBuf);

impl Frozen {
    pub fn freeze(point: &Path) -> Frozen {
        run("fsfreeze", &["--freeze", point.to_str().unwrap()]);
        Frozen(point.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        runs("fsfreeze", &["--unfreeze", self.0.to_str().unwrap()]);
    }
}
