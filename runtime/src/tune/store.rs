//! The store of measurements and choices: files of JSON lines that only grow.
//!
//! # Invariants
//! - a record is one line, written by one call under a lock of the file, so that several processes may tune at once;
//! - a process that dies leaves at most an unfinished last line; the next record starts on a line of its own;
//! - lines that are damaged or of another version are passed over with a notice, never an error;
//! - trouble with the disk is never an error of a tune or of a solve: what cannot be kept is said once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::record::{Damage, Record};
use crate::cache;

/// Environment variable that names the folder of the store.
pub const VARIABLE: &str = "KERNELWRIGHT_TUNED";
/// Extension of its files.
const EXTENSION: &str = "jsonl";
/// Larger files are not read: something else wrote them.
const LARGEST: u64 = 1 << 30;

/// A folder of records, or none.
#[derive(Debug, Default)]
pub struct Store {
    directory: Option<PathBuf>,
    notices: Vec<String>,
    /// Whether a record could not be written.
    lost: bool,
}

impl Store {
    /// The user's store: [`VARIABLE`] if set, else beside the kernel cache.
    pub fn of_user() -> Store {
        if let Some(directory) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            return Store::at(directory);
        }
        match cache::user_directory() {
            // A folder named in the environment holds kernels; the store is below it.
            Ok(kernels) if std::env::var_os(cache::DIRECTORY_VARIABLE).is_some_and(|value| !value.is_empty()) => {
                Store::at(kernels.join("tuned"))
            }
            Ok(kernels) => Store::at(kernels.with_file_name("tuned")),
            Err(why) => Store { notices: vec![why], ..Store::default() },
        }
    }

    /// A store in a folder, made when the first record is written.
    pub fn at(directory: impl Into<PathBuf>) -> Store {
        Store { directory: Some(directory.into()), ..Store::default() }
    }

    /// No store: nothing is remembered.
    pub fn none() -> Store {
        Store::default()
    }

    /// Its folder, if all that was to be written is there.
    pub fn kept(&self) -> Option<&Path> {
        self.directory().filter(|_| !self.lost)
    }

    /// Its folder, which need not exist yet.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Whether it holds no files.
    pub fn is_empty(&self) -> bool {
        let listing = self.directory.as_ref().and_then(|place| std::fs::read_dir(place).ok());
        listing.is_none_or(|mut listing| listing.next().is_none())
    }

    /// What the user should know; each notice is given once.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The records of a family, oldest first.
    pub fn read(&mut self, family: &str) -> Vec<Record> {
        let Some(path) = self.path(family) else { return Vec::new() };
        let mut records = self.read_file(&path);
        records.retain(|record| record.family == family);
        records
    }

    /// All records, by file.
    pub fn read_all(&mut self) -> Vec<Record> {
        let Some(directory) = &self.directory else { return Vec::new() };
        let Ok(listing) = std::fs::read_dir(directory) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = listing.filter_map(|item| item.ok().map(|item| item.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
        paths.sort();
        paths.iter().flat_map(|path| self.read_file(path)).collect()
    }

    /// Adds a record. One that cannot be kept is a notice.
    pub fn append(&mut self, record: &Record) {
        self.append_all(&record.family, &[record]);
    }

    /// Writes records into a file of its own.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn export(records: &[Record], to: &Path) -> io::Result<()> {
        let lines: String = records.iter().map(|record| record.line() + "\n").collect();
        std::fs::write(to, lines)
    }

    /// Takes over the records of an exported file that are not there yet; returns their number.
    ///
    /// # Errors
    /// A file that cannot be read, or that has lines and no record among them.
    pub fn import(&mut self, from: &Path) -> io::Result<usize> {
        let mut families: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        for record in self.exported(from)? {
            families.entry(record.family.clone()).or_default().push(record);
        }
        let mut taken = 0;
        for (family, records) in families {
            let known = self.read(&family);
            let new: Vec<&Record> = records.iter().filter(|new| !known.iter().any(|old| same(old, new))).collect();
            if self.append_all(&family, &new) {
                taken += new.len();
            }
        }
        Ok(taken)
    }

    /// The records of a store's folder, or of an exported file.
    ///
    /// # Errors
    /// A folder that cannot be listed, a file that cannot be read, or that has lines and no record among them.
    pub fn recorded(place: &Path) -> io::Result<(Vec<Record>, Vec<String>)> {
        let mut store = Store::at(place);
        let records = if place.is_dir() {
            std::fs::read_dir(place)?;
            store.read_all()
        } else {
            store.exported(place)?
        };
        Ok((records, store.take_notices()))
    }

    /// The records of an exported file.
    fn exported(&mut self, from: &Path) -> io::Result<Vec<Record>> {
        let text = String::from_utf8_lossy(&std::fs::read(from)?).into_owned();
        let records = self.parse(&text, from);
        if records.is_empty() && !text.trim().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no line of it is a record that can be used"));
        }
        Ok(records)
    }

    fn append_all(&mut self, family: &str, records: &[&Record]) -> bool {
        let Some(path) = self.path(family) else { return false };
        let lines: String = records.iter().map(|record| record.line() + "\n").collect();
        match write(&path, &lines) {
            Ok(()) => true,
            Err(error) => {
                let text = format!("measurements are not kept: {} cannot be written ({error})", path.display());
                self.notice(text);
                self.lost = true;
                false
            }
        }
    }

    /// The file of a family. Only hexadecimal names are ours: what is imported names no other files.
    fn path(&self, family: &str) -> Option<PathBuf> {
        let name = family.get(..32).filter(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        Some(self.directory.as_ref()?.join(name).with_extension(EXTENSION))
    }

    fn read_file(&mut self, path: &Path) -> Vec<Record> {
        match read(path) {
            Ok(text) => self.parse(&text, path),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Vec::new(),
            Err(error) => {
                self.notice(format!("measurements of {} cannot be read ({error})", path.display()));
                Vec::new()
            }
        }
    }

    fn parse(&mut self, text: &str, path: &Path) -> Vec<Record> {
        let (mut records, mut damaged, mut other) = (Vec::new(), 0, 0);
        for line in text.lines().filter(|line| !line.is_empty()) {
            match Record::read(line) {
                Ok(record) => records.push(record),
                Err(Damage::Damaged) => damaged += 1,
                Err(Damage::OtherVersion) => other += 1,
            }
        }
        for (count, what) in [(damaged, "damaged"), (other, "of another version")] {
            if count > 0 {
                self.notice(format!("{}: {count} of its lines are {what} and not used", path.display()));
            }
        }
        records
    }

    fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }
}

/// Whether two records are of one measurement.
fn same(a: &Record, b: &Record) -> bool {
    let what = |r: &Record| (r.key.clone(), r.schedule.clone(), r.kernel.clone(), r.variant.clone(), r.code.clone());
    a.kind == b.kind && a.when == b.when && what(a) == what(b)
}

fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() || about.len() > LARGEST {
        return Err(io::Error::other("it is no file of records"));
    }
    // Where locks are not supported, an unfinished line at the end is passed over as damaged.
    let _ = file.lock_shared();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write(path: &Path, lines: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    // The lock goes with the file; without support for locks one short write is still one piece.
    let _ = file.lock();
    let text = if ends_in_line(&mut file)? { lines.to_string() } else { format!("\n{lines}") };
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// Whether the last writer finished its line.
fn ends_in_line(file: &mut File) -> io::Result<bool> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::super::record::sample;
    use super::*;

    #[test]
    fn records_come_back_in_order_and_an_unfinished_line_harms_nobody() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut store = Store::at(folder.path().join("tuned"));
        let family = "0".repeat(32);
        let records: Vec<Record> = (0..4).map(|n| Record { family: family.clone(), when: n, ..sample() }).collect();
        store.append(&records[0]);
        let path = store.path(&family).expect("a name of digits");
        let mut half = std::fs::read_to_string(&path).expect("the file");
        half.push_str(&records[1].line()[..40]);
        std::fs::write(&path, half).expect("the file");
        store.append(&records[2]);
        assert_eq!(store.read(&family), [records[0].clone(), records[2].clone()]);
        assert!(store.take_notices()[0].contains("1 of its lines are damaged"));
        assert_eq!(store.read_all().len(), 2);
    }

    #[test]
    fn what_is_exported_can_be_imported_once() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut store = Store::at(folder.path().join("one"));
        store.append(&Record { family: "0".repeat(32), ..sample() });
        store.append(&Record { family: "1".repeat(32), ..sample() });
        let file = folder.path().join("team.jsonl");
        Store::export(&store.read_all(), &file).expect("a file");
        let mut other = Store::at(folder.path().join("two"));
        assert_eq!(other.import(&file).expect("a file"), 2);
        assert_eq!(other.import(&file).expect("a file"), 0);
        assert_eq!(other.read_all(), store.read_all());
    }

    #[test]
    fn a_family_is_never_a_path() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut store = Store::at(folder.path());
        store.append(&Record { family: "../".repeat(20), ..sample() });
        assert!(store.read_all().is_empty());
    }
}
