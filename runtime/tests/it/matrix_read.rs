//! Reading matrices: cutting does not change the result, what is written is read back, damage never panics.

use kernelwright::matrix::matrix_market::{read, read_cut, write};
use kernelwright::matrix::pieces::Cut;
use kernelwright::matrix::{Csr, Entry, Matrix, Symmetry, Triplets, file, npz};

use crate::matrix_corpus::files;

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Any finite number, also subnormal ones.
    fn value(&mut self) -> f64 {
        let bits = self.next() << 40 ^ self.next() << 20 ^ self.next();
        let value = f64::from_bits(bits.rotate_left(self.below(64) as u32));
        if value.is_finite() { value } else { 1.0 / 3.0 }
    }
}

/// Entries at random places of the stored triangle.
fn random(rows: usize, columns: usize, count: usize, symmetry: Symmetry, random: &mut Random) -> Vec<Entry> {
    let mut entries = Vec::new();
    while entries.len() < count {
        let (row, column) = (random.below(rows), random.below(columns));
        let stored = match symmetry {
            Symmetry::General => true,
            Symmetry::Symmetric => row >= column,
            Symmetry::Skew => row > column,
        };
        if stored {
            entries.push(Entry { row, column, value: random.value() });
        }
    }
    entries
}

fn csr(rows: usize, columns: usize, symmetry: Symmetry, entries: Vec<Entry>) -> Csr {
    Triplets { rows, columns, symmetry, parts: vec![entries] }.into_csr().expect("small").0
}

/// The text of entries, with lines of all lengths, comments and blank lines.
fn text(rows: usize, columns: usize, symmetry: Symmetry, entries: &[Entry], random: &mut Random) -> String {
    let name = symmetry.name();
    let mut out = format!("%%MatrixMarket matrix coordinate real {name}\n{rows} {columns} {}\n", entries.len());
    for Entry { row, column, value } in entries {
        let space = " ".repeat(random.below(5));
        let ending = ["\n", "\r\n", "\n\n", "\n% a comment\n", "\t\n"][random.below(5)];
        let value = [format!("{value:e}"), format!("{value:?}"), format!("{value:.17e}")][random.below(3)].clone();
        out.push_str(&format!("{space}{} {}{space} {value}{ending}", row + 1, column + 1));
    }
    out
}

/// Dense sums in the order of the entries, by definition.
fn dense(rows: usize, columns: usize, symmetry: Symmetry, entries: &[Entry]) -> Vec<Option<f64>> {
    let mut out = vec![None; rows * columns];
    let mut add = |row: usize, column: usize, value: f64| {
        let place: &mut Option<f64> = &mut out[row * columns + column];
        *place = Some(place.map_or(value, |sum| sum + value));
    };
    for entry in entries {
        add(entry.row, entry.column, entry.value);
        if symmetry != Symmetry::General && entry.row != entry.column {
            add(entry.column, entry.row, if symmetry == Symmetry::Skew { -entry.value } else { entry.value });
        }
    }
    out
}

const SYMMETRIES: [Symmetry; 3] = [Symmetry::General, Symmetry::Symmetric, Symmetry::Skew];

#[test]
fn every_value_and_every_place_is_read_whatever_the_cut() {
    let mut seed = Random(7);
    for round in 0..30 {
        let symmetry = SYMMETRIES[round % 3];
        let rows = 2 + seed.below(12);
        let columns = if symmetry == Symmetry::General { 1 + seed.below(12) } else { rows };
        let count = seed.below(200);
        let entries = random(rows, columns, count, symmetry, &mut seed);
        let text = text(rows, columns, symmetry, &entries, &mut seed);
        let matrix = read(text.as_bytes()).expect("a good file");
        let expected = dense(rows, columns, symmetry, &entries);
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(matrix.csr.get(row, column), expected[row * columns + column], "{row} {column}\n{text}");
            }
        }
        assert_eq!(matrix.stored, count);
        for cut in [(1, 1), (7, 3), (64, 10), (1000, 100), (1 << 20, 17)] {
            let cut = Cut { block: cut.0, piece: cut.1 };
            assert_eq!(read_cut(text.as_bytes(), cut).expect("a good file"), matrix, "{cut:?}");
        }
    }
}

#[test]
fn the_first_error_is_reported_whatever_the_cut() {
    let mut seed = Random(11);
    let entries = random(50, 50, 300, Symmetry::General, &mut seed);
    let good = text(50, 50, Symmetry::General, &entries, &mut seed);
    for round in 0..60 {
        let mut lines: Vec<String> = good.lines().map(str::to_string).collect();
        let (first, second) = (2 + seed.below(lines.len() - 2), 2 + seed.below(lines.len() - 2));
        match round % 3 {
            0 => lines[first] = "1 1 wrong".to_string(),
            1 => lines.truncate(first),
            _ => lines.insert(first, "1 1 1".to_string()),
        }
        if second < lines.len() && round % 2 == 0 {
            lines[second] = "77 1 1".to_string();
        }
        let text = lines.join("\n");
        let error = |cut| read_cut(text.as_bytes(), cut).err().map(|error| error.to_string());
        let whole = error(Cut::default());
        for (block, piece) in [(1, 1), (50, 7), (500, 60), (1 << 20, 100)] {
            assert_eq!(error(Cut { block, piece }), whole);
        }
    }
}

#[test]
fn numbers_are_rounded_as_the_standard_library_rounds() {
    let mut seed = Random(3);
    let mut words: Vec<String> =
        ["0", "-0", "1.", ".5", "+7", "1e22", "1e23", "9007199254740992", "9007199254740993e-3"]
            .map(String::from)
            .to_vec();
    for _ in 0..3000 {
        let digits = 1 + seed.below(24);
        let mut word: String = (0..digits).map(|_| char::from(b'0' + seed.below(10) as u8)).collect();
        word.insert(seed.below(digits + 1), '.');
        if seed.below(2) == 0 {
            word.push_str(&format!("{}{}", ["e", "E", "e+"][seed.below(3)], seed.below(30)));
        } else if seed.below(2) == 0 {
            word.push_str(&format!("e-{}", seed.below(330)));
        }
        words.push(word);
    }
    let header = format!("%%MatrixMarket matrix array real general\n{} 1\n", words.len());
    let matrix = read((header + &words.join("\n")).as_bytes()).expect("good numbers");
    for (row, word) in words.iter().enumerate() {
        let expected: f64 = word.parse().expect("a number");
        assert_eq!(matrix.csr.get(row, 0).unwrap_or(0.0), expected, "{word}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut seed = Random(5);
    for round in 0..30 {
        let symmetry = SYMMETRIES[round % 3];
        let rows = 2 + seed.below(20);
        let count = seed.below(60);
        let matrix = csr(rows, rows, symmetry, random(rows, rows, count, symmetry, &mut seed));
        let mut bytes = Vec::new();
        write(&mut bytes, &matrix, symmetry, &["two\nlines".to_string()]).expect("memory takes it");
        let back = read(&bytes[..]).expect("a good file");
        assert_eq!((&back.csr, back.symmetry), (&matrix, symmetry));
        bytes.clear();
        npz::write(&mut bytes, &matrix).expect("memory takes it");
        assert_eq!(npz::read(&bytes).expect("a good file").csr, matrix);
        let mut again = Vec::new();
        npz::write(&mut again, &matrix).expect("memory takes it");
        assert_eq!(bytes, again, "the same bytes at any time");
    }
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let mut seed = Random(19);
    for round in 0..12 {
        let symmetry = SYMMETRIES[round % 3];
        let rows = 2 + seed.below(40);
        let entries = random(rows, rows, seed.below(300), symmetry, &mut seed);
        let parts: Vec<Vec<Entry>> = entries.chunks(1 + seed.below(50)).map(<[Entry]>::to_vec).collect();
        let build = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
            let triplets = Triplets { rows, columns: rows, symmetry, parts: parts.clone() };
            pool.install(|| triplets.into_csr().expect("small"))
        };
        let (matrix, duplicates) = build(1);
        let mut places: Vec<(usize, usize)> = entries.iter().map(|entry| (entry.row, entry.column)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(duplicates, entries.len() - places.len());
        let expected = dense(rows, rows, symmetry, &entries);
        assert_eq!(matrix.entries(), expected.iter().flatten().count());
        for threads in [2, 3, 7] {
            assert_eq!(build(threads), (matrix.clone(), duplicates), "{threads} threads");
        }
    }
}

#[test]
fn the_transpose_of_the_transpose_is_the_matrix() {
    let mut seed = Random(13);
    let matrix = csr(9, 14, Symmetry::General, random(9, 14, 40, Symmetry::General, &mut seed));
    let transposed = matrix.transposed();
    assert_eq!((transposed.rows(), transposed.columns()), (14, 9));
    for row in 0..9 {
        (0..14).for_each(|column| assert_eq!(matrix.get(row, column), transposed.get(column, row)));
    }
    assert_eq!(transposed.transposed(), matrix);
}

/// Reads whatever it is; a matrix that comes out keeps its invariants.
fn survive(bytes: &[u8]) {
    let Ok(Matrix { csr, .. }) = file::from(bytes) else { return };
    assert_eq!((csr.row_starts()[0], csr.row_starts()[csr.rows()]), (0, csr.entries()));
    assert!(csr.values().iter().all(|value| !value.is_nan()));
    for row in 0..csr.rows() {
        let columns: Vec<usize> = csr.row(row).map(|entry| entry.0).collect();
        assert!(columns.windows(2).all(|pair| pair[0] < pair[1]) && columns.iter().all(|c| *c < csr.columns()));
    }
}

#[test]
fn no_cut_or_changed_file_panics() {
    let mut seed = Random(17);
    for path in files() {
        let good = std::fs::read(&path).expect("readable");
        for _ in 0..40 {
            survive(&good[..seed.below(good.len() + 1)]);
            let mut bytes = good.clone();
            for _ in 0..=seed.below(4) {
                if bytes.is_empty() {
                    break;
                }
                let place = seed.below(bytes.len());
                match seed.below(4) {
                    0 => bytes[place] ^= 1 << seed.below(8),
                    1 => bytes[place] = b"0123456789 -+.eE\n()%,"[seed.below(21)],
                    2 => drop(bytes.remove(place)),
                    _ => bytes.insert(place, bytes[seed.below(bytes.len())]),
                }
            }
            survive(&bytes);
        }
    }
}
