//! Operations of the model that may be refused for several reasons.

use std::collections::BTreeMap;

use super::{Done, Model};

impl Model {
    pub(super) fn unlink(&mut self, p: &[String]) -> Done {
        let (dir, name) = self.dir_of(p)?;
        let at = *self.entries(dir).get(name).ok_or(libc::ENOENT)?;
        if self.is_dir(at) {
            return Err(libc::EISDIR);
        }
        self.entries(dir).remove(name);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, p: &[String]) -> Done {
        let (dir, name) = self.dir_of(p)?;
        let at = *self.entries(dir).get(name).ok_or(libc::ENOENT)?;
        match self.items[at].entries.as_ref().map(BTreeMap::is_empty) {
            None => Err(libc::ENOTDIR),
            Some(false) => Err(libc::ENOTEMPTY),
            Some(true) => {
                self.entries(dir).remove(name);
                Ok(())
            }
        }
    }

    pub(super) fn link(&mut self, p: &[String], to: &[String]) -> Done {
        let at = self.find(p)?;
        let (dir, name) = self.dir_of(to)?;
        if self.is_dir(at) {
            return Err(libc::EPERM);
        }
        if self.entries(dir).contains_key(name) {
            return Err(libc::EEXIST);
        }
        self.entries(dir).insert(name.clone(), at);
        Ok(())
    }

    pub(super) fn punch(&mut self, p: &[String], offset: u64, len: u64) -> Done {
        let item = self.file(p)?;
        let end = ((offset + len) as usize).min(item.content.len());
        if (offset as usize) < end {
            item.content[offset as usize..end].fill(0);
            item.mtime = None;
        }
        Ok(())
    }

    pub(super) fn set_xattr(&mut self, p: &[String], name: &str, value: &[u8]) -> Done {
        let at = self.find(p)?;
        if value.len() > 32_768 {
            return Err(libc::E2BIG);
        }
        self.items[at].xattrs.insert(name.to_owned(), value.to_vec());
        Ok(())
    }
}
