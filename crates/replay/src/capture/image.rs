//! The captured data in a file. The page cache keeps as much of it in memory as there is room for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use poolwright_base::private;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use crate::Result;
use crate::error::host;

/// The image: a sparse file.
#[derive(Debug, Default)]
pub(super) struct Image {
    /// `None` only while the index is read.
    file: Option<File>,
    path: PathBuf,
    len: u64,
}

impl Image {
    /// Creates an image of `len` zero bytes.
    pub(super) fn create(path: &Path, len: u64) -> Result<Image> {
        let file = private::create_new(path).map_err(host("create", path))?;
        file.set_len(len).map_err(host("enlarge", path))?;
        Ok(Image { file: Some(file), path: path.to_owned(), len })
    }

    /// Opens an image that is only read.
    pub(super) fn open(path: &Path) -> Result<Image> {
        let file = File::open(path).map_err(host("open", path))?;
        let len = file.metadata().map_err(host("inspect", path))?.len();
        Ok(Image { file: Some(file), path: path.to_owned(), len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file().read_exact_at(into, at).map_err(host("read", &self.path))
    }

    pub(super) fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.file().write_all_at(from, at).map_err(host("write", &self.path))
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("an image is created or opened before it is used")
    }
}

/// Returns up to `want` bytes from a random place in `sources`, which are ranges of the image. Without sources,
/// generates numbered lines of text.
pub(super) fn made_up(
    rng: &mut ChaCha8Rng,
    sources: &[(u64, u64)],
    image: &Image,
    want: u64,
) -> Result<Vec<u8>> {
    if sources.is_empty() {
        let line =
            |rng: &mut ChaCha8Rng| format!("{:010} {:06} record\n", rng.next_u32(), rng.next_u32() % 1000);
        let mut text = String::new();
        while (text.len() as u64) < want {
            text.push_str(&line(rng));
        }
        return Ok(text.into_bytes()[..want as usize].to_vec());
    }
    let (at, len) = sources[rng.random_range(0..sources.len())];
    let n = want.min(len);
    let skip = if len > n { rng.random_range(0..=(len - n)) } else { 0 };
    let mut piece = vec![0; n as usize];
    image.read(at + skip, &mut piece)?;
    Ok(piece)
}
