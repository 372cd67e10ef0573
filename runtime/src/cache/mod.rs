//! The kernel cache: compiled units and chosen schedules on disk, keyed by everything that decides their content.
//!
//! # Invariants
//! - a [`Key`] hashes the whole generated source and all that the result depends on; what it is given is what counts;
//! - what [`Cache::get_or_build`] returns was either built now or matches the checksum of its entry, byte for byte:
//!   callers load the returned bytes, never the file;
//! - entries appear complete or not at all (written aside, then renamed), so racing processes need no lock: the
//!   last one to finish wins and all hold equal results;
//! - a failed build leaves nothing behind;
//! - no trouble with the disk is an error of the caller's: the cache then stands aside, with a notice.

mod entry;
mod key;

pub use entry::{Damage, Description};
pub use key::{Key, KeyBuilder};

use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Environment variable that names the cache directory.
pub const DIRECTORY_VARIABLE: &str = "KERNELWRIGHT_CACHE";
/// Extension of entries.
const EXTENSION: &str = "kernel";
/// Start of the names of files being written.
const ASIDE: &str = ".aside-";
/// Files being written that are older than this were left by a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of compiled units, or none.
#[derive(Debug)]
pub struct Cache {
    directory: Option<PathBuf>,
    /// Units by key, where they are kept as long as the cache lives and no longer.
    memory: Option<Mutex<BTreeMap<String, Vec<u8>>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    notices: Mutex<Vec<String>>,
}

/// Running totals of a cache since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CacheCounters {
    /// Units found.
    pub hits: u64,
    /// Units built.
    pub misses: u64,
}

/// An entry as `list` and `verify` report it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Name of the file.
    pub file: String,
    /// Size of the file.
    pub bytes: u64,
    /// What it holds, or what is wrong with it.
    pub state: Result<Description, Damage>,
}

impl Cache {
    /// The user's cache: [`DIRECTORY_VARIABLE`] if set, else the platform's cache directory.
    pub fn of_user() -> Cache {
        match user_directory() {
            Ok(directory) => Cache::at(directory),
            Err(why) => Cache { notices: Mutex::new(vec![why]), ..Cache::none() },
        }
    }

    /// A cache in a directory, made when the first entry is written.
    pub fn at(directory: impl Into<PathBuf>) -> Cache {
        Cache { directory: Some(directory.into()), ..Cache::none() }
    }

    /// No cache: everything is built.
    pub fn none() -> Cache {
        Cache {
            directory: None,
            memory: None,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            notices: Mutex::new(Vec::new()),
        }
    }

    /// A cache without a directory: everything is built once, and gone with it.
    pub fn in_memory() -> Cache {
        Cache { memory: Some(Mutex::default()), ..Cache::none() }
    }

    /// Its directory, which need not exist yet.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The unit of a key: from its entry if there is a sound one, else from `build`, and then kept. The size and time
    /// of `about` are filled in here. Fails as `build` does and for no other reason.
    pub fn get_or_build<E>(
        &self,
        key: &Key,
        about: Description,
        build: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        if let Some(unit) = self.find(key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(unit);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let unit = build()?;
        if let Some(mut units) = self.remembered() {
            units.insert(file_name(key), unit.clone());
        }
        if let Some(directory) = &self.directory
            && let Err(error) = keep(directory, key, about, &unit)
        {
            let place = directory.display();
            self.notice(format!("kernels are not kept: the cache {place} cannot be written ({error})"));
        }
        Ok(unit)
    }

    /// All entries, by name of file; an empty list where there is no directory. Reads and checks every entry.
    pub fn list(&self) -> std::io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for path in self.files()? {
            let file = name_of(&path);
            let (bytes, state) = match std::fs::read(&path) {
                Ok(content) => (content.len() as u64, entry::read(&content, &file).map(|(about, _)| about)),
                // Taken away since the directory was read: nothing to report.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => (0, Err(Damage::Unreadable(error.to_string()))),
            };
            entries.push(Entry { file, bytes, state });
        }
        Ok(entries)
    }

    /// Checks every entry, takes the damaged ones away and returns them.
    pub fn verify(&self) -> std::io::Result<Vec<Entry>> {
        let damaged: Vec<Entry> = self.list()?.into_iter().filter(|entry| entry.state.is_err()).collect();
        if let Some(directory) = &self.directory {
            for entry in &damaged {
                remove(&directory.join(&entry.file))?;
            }
        }
        self.sweep()?;
        Ok(damaged)
    }

    /// Takes all entries away and returns their number. Other files in the directory stay.
    pub fn clear(&self) -> std::io::Result<usize> {
        let files = self.files()?;
        for path in &files {
            remove(path)?;
        }
        self.sweep()?;
        Ok(files.len())
    }

    /// Whether an entry could be written: makes the directory and a file in it that goes again.
    pub fn probe(&self) -> std::io::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        make(directory)?;
        tempfile::Builder::new().prefix(ASIDE).tempfile_in(directory)?.write_all(b"probe")
    }

    /// Running totals.
    pub fn counters(&self) -> CacheCounters {
        CacheCounters { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }

    /// What the user should know; each notice is given once.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn notice(&self, text: String) {
        let mut notices = self.notices.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !notices.contains(&text) {
            notices.push(text);
        }
    }

    /// The units in memory, if that is where they are kept. No unit is half there, whoever panicked.
    fn remembered(&self) -> Option<MutexGuard<'_, BTreeMap<String, Vec<u8>>>> {
        Some(self.memory.as_ref()?.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn find(&self, key: &Key) -> Option<Vec<u8>> {
        let file = file_name(key);
        if let Some(units) = self.remembered() {
            return units.get(&file).cloned();
        }
        let path = self.directory.as_ref()?.join(&file);
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if is_absence(&error) => return None,
            Err(error) => {
                self.notice(format!("the cache entry {} cannot be read ({error}); built anew", path.display()));
                return None;
            }
        };
        match entry::read(&content, &file) {
            Ok((_, unit)) => Some(unit.to_vec()),
            Err(damage) => {
                self.notice(format!("the cache entry {} is damaged ({damage}); built anew", path.display()));
                None
            }
        }
    }

    /// Paths of entries, in order of name.
    fn files(&self) -> std::io::Result<Vec<PathBuf>> {
        self.paths(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
    }

    /// Removes what dead processes left behind.
    fn sweep(&self) -> std::io::Result<()> {
        for path in self.paths(|path| name_of(path).starts_with(ASIDE))? {
            let age = std::fs::metadata(&path).and_then(|data| data.modified()).map(|time| time.elapsed());
            if matches!(age, Ok(Ok(age)) if age > ABANDONED) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn paths(&self, wanted: impl Fn(&Path) -> bool) -> std::io::Result<Vec<PathBuf>> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let listing = match std::fs::read_dir(directory) {
            Ok(listing) => listing,
            Err(error) if is_absence(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for item in listing {
            let path = item?.path();
            if wanted(&path) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Directory of the user's cache, or why there is none.
pub fn user_directory() -> Result<PathBuf, String> {
    use etcetera::BaseStrategy as _;
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(directory));
    }
    etcetera::choose_base_strategy()
        .map(|base| base.cache_dir().join("kernelwright").join("kernels"))
        .map_err(|error| format!("kernels are not kept: no home directory ({error}); {DIRECTORY_VARIABLE} names one"))
}

/// Writes an entry aside and renames it into place.
fn keep(directory: &Path, key: &Key, about: Description, unit: &[u8]) -> std::io::Result<()> {
    make(directory)?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let about = Description { bytes: unit.len() as u64, created, ..about };
    let file = file_name(key);
    let mut aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(directory)?;
    entry::write(aside.as_file_mut(), &file, &about, unit)?;
    aside.as_file_mut().flush()?;
    aside.persist(directory.join(file)).map_err(|error| error.error)?;
    Ok(())
}

/// Makes the directory for its owner alone: what lies there is run.
fn make(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Removes a file; fine if another process was faster.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Whether an error says that there is no such file, or that a part of the path is no directory.
fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn file_name(key: &Key) -> String {
    format!("{}.{EXTENSION}", key.text())
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
