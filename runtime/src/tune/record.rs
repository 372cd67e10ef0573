//! Records of the store: one JSON object a line, each with its own checksum.

use serde::{Deserialize, Serialize};

use crate::backend::KernelInfo;

/// Version of the records' format and of what their keys cover.
pub const FORMAT: u32 = 1;
/// What stands before the checksum at the end of a line.
const CHECK: &str = ",\"check\":\"";
/// Digits of a checksum.
const DIGITS: usize = 16;

/// What was measured or decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A kernel under a variant.
    Kernel,
    /// What a search found best for a kernel.
    Winner,
    /// An iteration under a schedule.
    Iteration,
    /// What a tune chose.
    Choice,
}

/// How a measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Proven and timed.
    Timed,
    /// Proven, and so slow that its time was not settled.
    Slow,
    /// Did not compile, launch or agree; never wins.
    Failed,
}

/// What the measurement is about, for people and for export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Operator.
    pub operator: String,
    /// Solver.
    pub solver: String,
    /// Points along the axes.
    pub sizes: Vec<usize>,
    /// The sizes rounded to powers of two; see [`class_of`](super::key::class_of).
    pub class: String,
    /// Hash of the structure of a matrix or mesh.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub structure: String,
    /// `f32` or `f64`.
    pub precision: String,
    /// The back end in words.
    pub device: String,
}

/// A line of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// Hash of all but sizes and candidate space.
    pub family: String,
    /// Hash of everything.
    pub key: String,
    /// What it is.
    pub kind: Kind,
    /// What it is about.
    pub about: About,
    /// The schedule.
    pub schedule: String,
    /// Name of the sweep or fence; empty for a whole iteration.
    #[serde(default)]
    pub kernel: String,
    /// Hash of the generated code that was measured.
    pub code: String,
    /// Parts of the variant that are set, `block` or, of one kernel, `update_u_r.block`, with their values.
    pub variant: Vec<(String, String)>,
    /// Threads, where they were chosen.
    #[serde(default)]
    pub threads: Option<usize>,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it failed.
    #[serde(default)]
    pub reason: String,
    /// Seconds of a launch, or of an iteration.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Median over least time, less one.
    #[serde(default)]
    pub spread: f64,
    /// Samples taken.
    #[serde(default)]
    pub samples: u32,
    /// Registers and the like.
    #[serde(default)]
    pub info: Option<KernelInfo>,
    /// Seconds of the untuned default in the same run; of a choice.
    #[serde(default)]
    pub default_seconds: Option<f64>,
    /// Copy bandwidth of the same run, bytes a second.
    #[serde(default)]
    pub copy_bandwidth: Option<f64>,
    /// Seconds since 1970.
    pub when: u64,
}

/// Why a line is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Not as it was written.
    Damaged,
    /// Of another version of the format.
    OtherVersion,
}

impl Record {
    /// The line, without its end.
    pub fn line(&self) -> String {
        // Plain data with text keys always has a JSON form; numbers that are not finite are never stored.
        let mut text = serde_json::to_string(self).expect("invariant: records are plain data");
        text.pop();
        let check = digest(&text);
        text + CHECK + &check + "\"}"
    }

    /// Reads a line.
    ///
    /// # Errors
    /// A line that is damaged or of another version.
    pub fn read(line: &str) -> Result<Record, Damage> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version = serde_json::from_str(line).map_err(|_| Damage::Damaged)?;
        if version.format != FORMAT {
            return Err(Damage::OtherVersion);
        }
        let body = line.len().checked_sub(CHECK.len() + DIGITS + 2).and_then(|end| line.get(..end));
        let body = body.ok_or(Damage::Damaged)?;
        if line[body.len()..] != format!("{CHECK}{}\"}}", digest(body)) {
            return Err(Damage::Damaged);
        }
        serde_json::from_str(line).map_err(|_| Damage::Damaged)
    }
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGITS].to_string()
}

/// Now.
pub(super) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
pub(super) fn sample() -> Record {
    Record {
        format: FORMAT,
        family: "f".repeat(32),
        key: "k".repeat(32),
        kind: Kind::Kernel,
        about: About {
            operator: "shell".into(),
            solver: "pcg".into(),
            sizes: vec![256, 256, 128],
            class: "256x256x128".into(),
            structure: String::new(),
            precision: "f64".into(),
            device: "host".into(),
        },
        schedule: "statement".into(),
        kernel: "update_u_r".into(),
        code: "c".into(),
        variant: vec![("block".into(), "64x4".into())],
        threads: None,
        verdict: Verdict::Timed,
        reason: String::new(),
        seconds: Some(1.25e-4),
        spread: 0.01,
        samples: 5,
        info: None,
        default_seconds: None,
        copy_bandwidth: None,
        when: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let record = sample();
        assert_eq!(Record::read(&record.line()), Ok(record));
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let line = sample().line();
        for at in 0..line.len() {
            assert!(Record::read(&line[..at]).is_err(), "cut at {at}");
            let mut bytes = line.clone().into_bytes();
            bytes[at] = if bytes[at] == b'3' { b'4' } else { b'3' };
            let changed = String::from_utf8(bytes).expect("still ASCII");
            if changed != line {
                assert!(Record::read(&changed).is_err(), "changed at {at}: {changed}");
            }
        }
        let other = line.replace("\"format\":1", "\"format\":99");
        assert_eq!(Record::read(&other), Err(Damage::OtherVersion));
    }
}
