//! Mutations of the corpus, the same ones in every run: whatever a file says, it is read or refused, without a panic and
//! within a bound of memory. (`fuzz/` holds the same entry for a fuzzer that goes on for hours.)

use std::io::{Read, Write};
use std::process::Command;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use flate2::write::GzEncoder;
use kernelwright::matrix::file;

use crate::matrix_corpus::files;

/// Set in the process that has the bound.
const INSIDE: &str = "KERNELWRIGHT_TEST_BOUNDED";
/// Address space of that process in KiB: the believed sizes (2^24 rows without entries) need some 500 MiB.
const BOUND: u64 = 2 << 20;
const MUTATIONS: usize = 100;

#[test]
fn mutated_files_are_read_or_refused_within_bounds() {
    if std::env::var_os(INSIDE).is_some() || !cfg!(target_os = "linux") {
        return mutate_all();
    }
    let program = std::env::current_exe().expect("the test's own program");
    let name = "matrix_fuzz::mutated_files_are_read_or_refused_within_bounds";
    let script = format!("ulimit -v {BOUND} && exec \"$0\" --exact {name}");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(&program).env(INSIDE, "1").env("RAYON_NUM_THREADS", "2");
    let output = command.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn mutate_all() {
    let corpus: Vec<Vec<u8>> = files().iter().map(|path| std::fs::read(path).expect("readable")).collect();
    let mut random = Random(2026);
    for good in &corpus {
        for _ in 0..MUTATIONS {
            let other = &corpus[random.below(corpus.len())];
            survive(&mutated(good, other, &mut random));
        }
    }
}

/// Reads; what is read keeps the invariants of compressed rows.
fn survive(bytes: &[u8]) {
    let Ok(matrix) = file::from(bytes) else { return };
    let (csr, start) = (&matrix.csr, matrix.csr.row_starts());
    assert_eq!((start.len(), start[0], start[csr.rows()]), (csr.rows() + 1, 0, csr.entries()));
    assert!(start.is_sorted() && csr.values().iter().all(|value| value.is_finite()));
    for bounds in start.windows(2) {
        let columns = &csr.column_indices()[bounds[0]..bounds[1]];
        assert!(columns.is_sorted_by(|a, b| a < b) && columns.last().is_none_or(|last| *last < csr.columns()));
    }
    for vector in matrix.vectors.right_hand_sides.iter().chain(&matrix.vectors.guesses) {
        assert!(vector.iter().all(|value| value.is_finite()));
    }
}

/// Text is changed as text; members of an archive are changed each and packed again, so that checksums hold.
fn mutated(good: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    if let Some(mut members) = members(good)
        && random.below(4) > 0
    {
        let number = random.below(members.len());
        let bytes = change(&members[number].1, other, random);
        members[number].1 = bytes;
        return archive(&members);
    }
    let bytes = change(good, other, random);
    if random.below(8) > 0 {
        return bytes;
    }
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&bytes).expect("memory");
    packed.finish().expect("memory")
}

/// Numbers that break what trusts them.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-400",
    "nan",
    "0x10",
    "1000000000",
    "1.5",
];

fn change(good: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return other.to_vec();
        }
        let place = random.below(bytes.len());
        match random.below(9) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes.truncate(place),
            2 => replace_number(&mut bytes, place, NUMBERS[random.below(NUMBERS.len())]),
            3 => replace_number(&mut bytes, place, NUMBERS[random.below(NUMBERS.len())]),
            4 => {
                let tail = other[random.below(other.len().max(1)).min(other.len())..].to_vec();
                bytes.splice(place.., tail);
            }
            5 => repeat_line(&mut bytes, place, 1 + random.below(50)),
            6 => {
                let filler = [b' ', b'9', b'\n', b'%', b'-'][random.below(5)];
                bytes.splice(place..place, std::iter::repeat_n(filler, 1 << random.below(12)));
            }
            7 => {
                let end = (place + 1 + random.below(40)).min(bytes.len());
                bytes.drain(place..end);
            }
            _ => bytes[place] = random.next() as u8,
        }
    }
    bytes
}

/// Replaces the first number behind a place.
fn replace_number(bytes: &mut Vec<u8>, place: usize, number: &str) {
    let Some(from) = bytes[place..].iter().position(u8::is_ascii_digit).map(|n| place + n) else { return };
    let length = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(from..from + length, number.bytes());
}

fn repeat_line(bytes: &mut Vec<u8>, place: usize, times: usize) {
    let from = bytes[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |n| n + 1);
    let to = bytes[place..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| place + n + 1);
    let line = bytes[from..to].repeat(times);
    bytes.splice(from..from, line);
}

/// Name and contents of the members of a zip archive.
type Members = Vec<(String, Vec<u8>)>;

fn members(mut bytes: &[u8]) -> Option<Members> {
    let field = |bytes: &[u8], at: usize, width: usize| -> Option<usize> {
        let field = bytes.get(at..at + width)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let mut out = Vec::new();
    while bytes.starts_with(b"PK\x03\x04") {
        let (name, extra) = (field(bytes, 26, 2)?, field(bytes, 28, 2)?);
        let (method, short) = (field(bytes, 8, 2)?, field(bytes, 18, 4)?);
        // NumPy writes sizes in the 64-bit extension: tag, length, size, packed size (at 12).
        let size = if short == 0xffff_ffff { field(bytes, 30 + name + 12, 8)? } else { short };
        let contents = bytes.get(30 + name + extra..30 + name + extra + size)?;
        let mut plain = Vec::new();
        match method {
            0 => plain.extend(contents),
            8 => drop(DeflateDecoder::new(contents).read_to_end(&mut plain)),
            _ => return None,
        }
        out.push((String::from_utf8_lossy(&bytes[30..30 + name]).into_owned(), plain));
        bytes = &bytes[30 + name + extra + size..];
    }
    Some(out).filter(|members| !members.is_empty())
}

fn archive(members: &Members) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, contents) in members {
        let mut crc = Crc::new();
        crc.update(contents);
        let size = (contents.len() as u32).to_le_bytes();
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend(size.iter().chain(&size));
        common.extend((name.len() as u16).to_le_bytes().iter().chain(&[0, 0]));
        directory.extend(b"PK\x01\x02\x14\x00".iter().chain(&common).chain(&[0; 10]));
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.bytes());
        out.extend(b"PK\x03\x04".iter().chain(&common));
        out.extend(name.bytes().chain(contents.iter().copied()));
    }
    let (at, count) = ((out.len() as u32).to_le_bytes(), (members.len() as u16).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.iter().chain(&count).chain(&size).chain(&at).chain(&[0, 0]));
    out
}

/// An archive that the test packs is one that is read.
#[test]
fn repacked_archives_are_read() {
    let mut packed = 0;
    for path in files() {
        let bytes = std::fs::read(&path).expect("readable");
        let Some(members) = members(&bytes) else { continue };
        if let (Ok(before), Ok(after)) = (file::from(&bytes[..]), file::from(&archive(&members)[..])) {
            assert_eq!(before, after, "{}", path.display());
            packed += 1;
        }
    }
    assert!(packed >= 6, "{packed} archives");
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n.max(1)
    }
}
