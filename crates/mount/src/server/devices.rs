//! The emulated devices of the pool's files.

use std::path::{Path, PathBuf};

use poolwright_openzfs::{Config, Device, Engine};

use crate::server::{Error, Result};

/// Threads that wait for a vdev's requests: the number of requests that OpenZFS issues to a vdev when all of its queues are
/// full (ten synchronous reads, ten synchronous and ten asynchronous writes, three prefetches, and some for the log and a
/// scrub). With fewer, requests of a fast vdev would wait for threads that a slow one occupies.
const THREADS_PER_VDEV: usize = 40;
const MAX_THREADS: usize = 256;

/// An emulated device for all files of a pool, and others for single files by name.
#[derive(Clone, Debug)]
pub struct Devices {
    all: Device,
    named: Vec<(String, Device)>,
}

impl Devices {
    /// Parses `KIND[,NAME=KIND…]`. The first kind may be a list of figures, which are separated by commas too.
    ///
    /// # Errors
    /// A message that names the invalid part.
    pub fn parse(text: &str) -> std::result::Result<Devices, String> {
        let kind = |kind: &str| Device::parse(kind).map_err(|why| why.to_string());
        let words: Vec<&str> = text.split(',').collect();
        // The longest beginning that is a kind: `read=80us,depth=4` is one kind, `hdd,log0=ssd` is a kind and a file.
        let first = (1..=words.len()).rev().find_map(|n| Some((n, kind(&words[..n].join(",")).ok()?)));
        let (n, all) = match first {
            Some(found) => found,
            None => (1, kind(words[0])?),
        };
        let words = words[n..].iter().copied();
        let named = |word: &str| match word.split_once('=') {
            Some((name, of)) if !name.is_empty() => Ok((name.to_owned(), kind(of)?)),
            _ => Err(format!("{word:?} is not NAME=KIND, with the name of a file of the pool")),
        };
        Ok(Devices { all, named: words.map(named).collect::<std::result::Result<_, String>>()? })
    }

    /// Whether any device is emulated.
    pub fn is_emulated(&self) -> bool {
        let host = Device::none();
        self.all != host || self.named.iter().any(|(_, device)| *device != host)
    }

    /// Starts the engine with the devices of these files. Called before the pool is opened, so that all of its I/O is delayed.
    pub(crate) fn start(&self, files: &[PathBuf]) -> Result<()> {
        if !self.is_emulated() {
            return Ok(());
        }
        let named = self.named.iter().map(|(name, device)| Ok((find(name, files)?, device)));
        let named: Vec<(&Path, &Device)> = named.collect::<Result<_>>()?;
        let vdev_threads = (THREADS_PER_VDEV * files.len()).min(MAX_THREADS) as u32;
        let engine = Engine::start(&Config { vdev_threads, ..Config::default() })?;
        engine.set_device(&self.all);
        for (file, device) in named {
            engine.set_device_of(file, device)?;
        }
        Ok(())
    }
}

fn find<'a>(name: &str, files: &'a [PathBuf]) -> Result<&'a Path> {
    let name_of =
        |file: &Path| file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    files.iter().map(PathBuf::as_path).find(|file| name_of(file) == name).ok_or_else(|| Error::NoFile {
        name: name.to_owned(),
        files: files.iter().map(|file| name_of(file)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use poolwright_base::{Exit, ReportedError as _};

    use super::*;

    #[test]
    fn kinds_and_names() {
        assert!(!Devices::parse("none").unwrap().is_emulated());
        let devices = Devices::parse("hdd,cache0=ssd,log0=none").unwrap();
        assert!(devices.is_emulated());
        assert_eq!(devices.all.name, "hdd");
        assert_eq!(devices.named[0].1.name, "sata-ssd");
        assert!(Devices::parse("none,d0=4xhdd").unwrap().is_emulated());
        let figures = Devices::parse("read=80us,write=20us,read_bw=1G,depth=4,cache0=ssd").unwrap();
        assert_eq!((figures.all.write_latency_ns, figures.all.queue_depth), (20_000, 4));
        assert_eq!(figures.named[0].0, "cache0");
        for bad in ["", "floppy", "hdd,ssd", "hdd,=ssd", "hdd,d0=", "hdd,d0=floppy"] {
            assert!(Devices::parse(bad).is_err(), "{bad}");
        }
        let files = [PathBuf::from("/pool/d0"), PathBuf::from("/pool/cache0")];
        assert_eq!(find("cache0", &files).unwrap(), files[1]);
        assert_eq!(find("cache1", &files).unwrap_err().exit(), Exit::Usage);
    }
}
