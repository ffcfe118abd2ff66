//! The directory with the shipped campaigns and drivers, and the directory for their tools and caches.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use poolwright_base::quoted;

/// The directory that contains `campaigns` and `workloads/lab`: a source tree, or `share/poolwright` of an installation.
#[derive(Clone, Debug)]
pub struct Assets(PathBuf);

impl Assets {
    /// Finds the directory: `POOLWRIGHT_HOME` if it is set; otherwise the nearest one above the running program, then
    /// `../share/poolwright` relative to the program's directory, then the nearest one above the current directory.
    ///
    /// # Errors
    /// Returns a message for the user if the directory does not exist.
    pub fn find() -> std::result::Result<Assets, String> {
        if let Some(named) = std::env::var_os("POOLWRIGHT_HOME") {
            let named = PathBuf::from(named);
            return match is_assets_dir(&named) {
                true => Ok(Assets(named)),
                false => Err(format!("POOLWRIGHT_HOME={} has no directory workloads/lab", quoted(&named))),
            };
        }
        candidates(std::env::current_exe().ok(), std::env::current_dir().ok())
            .find(|dir| is_assets_dir(dir))
            .map(Assets)
            .ok_or_else(|| {
                "the campaigns and drivers were found neither relative to the program nor above the current directory\n\
                 hint: set POOLWRIGHT_HOME to Poolwright's source tree"
                    .to_owned()
            })
    }

    /// Uses this directory.
    pub fn at(dir: &Path) -> Assets {
        Assets(dir.to_owned())
    }

    /// The directory of the shipped campaigns.
    pub fn campaigns(&self) -> PathBuf {
        self.0.join("campaigns")
    }

    /// The files of the shipped campaigns, sorted by name.
    pub fn campaign_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.campaigns()).into_iter().flatten().flatten().map(|e| e.path());
        let mut files: Vec<PathBuf> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
        files.sort();
        files
    }

    /// The program of a driver.
    pub fn driver(&self, name: &str) -> PathBuf {
        self.0.join("workloads/lab").join(name)
    }

    /// The directory for tools that no package provides: `target/lab` of a source tree. An installation is read-only for
    /// its users, so it uses `poolwright/lab` in the user's cache directory.
    pub fn tools(&self) -> PathBuf {
        tools(&self.0, std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
    }

    /// The directory for the generated inputs of a campaign.
    pub fn cache(&self, campaign: &str) -> PathBuf {
        self.tools().join("cache").join(campaign)
    }
}

/// The directories to look at, in order.
fn candidates(program: Option<PathBuf>, current: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let above = |path: &Path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>();
    let prefix = program.as_deref().and_then(Path::parent).and_then(Path::parent);
    let shared = prefix.map(|prefix| prefix.join("share/poolwright"));
    let program = program.as_deref().map(above).unwrap_or_default();
    let current = current.as_deref().map(above).unwrap_or_default();
    program.into_iter().chain(shared).chain(current)
}

fn is_assets_dir(dir: &Path) -> bool {
    dir.join("workloads/lab").is_dir()
}

fn tools(root: &Path, cache_home: Option<OsString>, home: Option<OsString>) -> PathBuf {
    // As the XDG Base Directory Specification has it, a relative path is ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let user = || cache_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")));
    match root.join("Cargo.toml").exists() {
        true => root.join("target/lab"),
        false => user().map_or_else(|| root.join("target/lab"), |cache| cache.join("poolwright/lab")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_found_after_a_source_tree_above_the_program() {
        let found: Vec<PathBuf> =
            candidates(Some("/opt/bin/poolwright".into()), Some("/home/me".into())).collect();
        let expected = [
            "/opt/bin/poolwright",
            "/opt/bin",
            "/opt",
            "/",
            "/opt/share/poolwright",
            "/home/me",
            "/home",
            "/",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn only_a_source_tree_keeps_tools_in_itself() {
        let root = tempfile::tempdir().unwrap();
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            tools(root.path(), xdg.map(Into::into), home.map(Into::into))
        };
        assert_eq!(cache(Some("/c"), Some("/home/me")), Path::new("/c/poolwright/lab"));
        assert_eq!(cache(Some("relative"), Some("/home/me")), Path::new("/home/me/.cache/poolwright/lab"));
        assert_eq!(cache(None, None), root.path().join("target/lab"));
        std::fs::write(root.path().join("Cargo.toml"), "").unwrap();
        assert_eq!(cache(Some("/c"), Some("/home/me")), root.path().join("target/lab"));
    }
}
