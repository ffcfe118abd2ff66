//! Where the shipped campaigns and drivers are.

use std::path::{Path, PathBuf};

/// The folder with `campaigns` and `workloads/lab`.
#[derive(Clone, Debug)]
pub struct Assets(PathBuf);

impl Assets {
    /// `POOLWRIGHT_HOME`, or the nearest one above the running program, or above the current folder; else the sentence
    /// that says so.
    pub fn find() -> std::result::Result<Assets, String> {
        if let Some(named) = std::env::var_os("POOLWRIGHT_HOME") {
            let named = PathBuf::from(named);
            return match is_assets_dir(&named) {
                true => Ok(Assets(named)),
                false => Err(format!(
                    "POOLWRIGHT_HOME is {}, and there is no workloads/lab in it",
                    named.display()
                )),
            };
        }
        let starts = [std::env::current_exe(), std::env::current_dir()];
        let found =
            starts.iter().flatten().flat_map(|start| start.ancestors()).find(|dir| is_assets_dir(dir));
        found.map(|dir| Assets(dir.to_owned())).ok_or_else(|| {
            "no folder with workloads/lab is above the program or the current folder; name it with POOLWRIGHT_HOME=DIR"
                .to_owned()
        })
    }

    /// This folder.
    pub fn at(dir: &Path) -> Assets {
        Assets(dir.to_owned())
    }

    /// The shipped campaigns.
    pub fn campaigns(&self) -> PathBuf {
        self.0.join("campaigns")
    }

    /// The shipped campaigns' files, by name.
    pub fn campaign_files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.campaigns()).into_iter().flatten().flatten().map(|e| e.path());
        let mut files: Vec<PathBuf> =
            entries.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
        files.sort();
        files
    }

    /// A driver's program.
    pub fn driver(&self, name: &str) -> PathBuf {
        self.0.join("workloads/lab").join(name)
    }

    /// What no package has.
    pub fn tools(&self) -> PathBuf {
        self.0.join("target/lab")
    }

    /// Generated inputs of a campaign.
    pub fn cache(&self, campaign: &str) -> PathBuf {
        self.tools().join("cache").join(campaign)
    }
}

fn is_assets_dir(dir: &Path) -> bool {
    dir.join("workloads/lab").is_dir()
}
