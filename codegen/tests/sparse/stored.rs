//! What is stored is the matrix: read back cell by cell, for every format and every kind of matrix.

use crate::formats;
use crate::matrices::{self, Csr};
use kernelwright_codegen::format::delta::{Cell, chunk, decode};
use kernelwright_codegen::format::{Basis, FormatError, Options, Role, Stored, decode as reading, layout, store};
use kernelwright_codegen::math_verify;
use std::collections::BTreeMap;

const PLAIN: Options = Options { basis: Basis::Permuted, diagonal: true };

/// Reads a stored row back in terms of the given matrix, padding dropped.
fn row_of(stored: &Stored, basis: Basis, row: u64) -> BTreeMap<u64, f64> {
    let get = |role, at| {
        let (number, array) = stored.layout.array(role).unwrap();
        assert!(at < array.len, "{role:?} is read at {at} of {}", array.len);
        stored.contents[number].real(at as usize)
    };
    let mut entries = BTreeMap::new();
    for (column, value) in reading::row(&stored.layout, &get, row) {
        assert!(column < stored.layout.size, "column {column}");
        let given = match (&stored.order, basis) {
            (Some(order), Basis::Permuted) => order[column as usize],
            _ => column,
        };
        if value != 0.0 {
            assert!(entries.insert(given, value).is_none(), "column {given} stands twice");
        }
    }
    entries
}

fn holds(matrix: &Csr, stored: &Stored, basis: Basis) {
    let layout = &stored.layout;
    let context = format!("{} in {}", matrix.name, layout.format.name);
    for (array, contents) in layout.arrays.iter().zip(&stored.contents) {
        assert_eq!(array.len, contents.len() as u64, "{context}: {:?}", array.role);
    }
    for row in 0..layout.size {
        let given = stored.order.as_ref().map_or(row, |order| order[row as usize]) as usize;
        let want: BTreeMap<u64, f64> = match given < matrix.rows() {
            true => matrix.row(given).map(|(c, v)| (c as u64, v)).collect(),
            false => BTreeMap::new(),
        };
        assert_eq!(row_of(stored, basis, row), want, "{context}, row {given}");
    }
    let values = &stored.contents[layout.array(Role::Value).unwrap().0];
    let nonzero = values.reals().iter().filter(|v| **v != 0.0).count();
    assert_eq!(nonzero, matrix.value.len(), "{context}");
    let operator = kernelwright_codegen::format::operator("a", layout, Vec::new());
    assert!(math_verify::verify(&operator).is_ok(), "{context}: {:?}", math_verify::verify(&operator));
}

#[test]
fn every_format_holds_every_matrix() {
    for format in formats::all() {
        for matrix in matrices::square() {
            let stored = store(&format, &matrix.view(), PLAIN).unwrap_or_else(|e| panic!("{}: {e}", matrix.name));
            holds(&matrix, &stored, Basis::Permuted);
        }
        for matrix in matrices::oblong() {
            let options = Options { basis: Basis::Given, diagonal: false };
            let stored = store(&format, &matrix.view(), options).unwrap();
            holds(&matrix, &stored, Basis::Given);
        }
    }
}

#[test]
fn columns_far_away_are_kept_aside() {
    let matrix = matrices::wide();
    for name in ["csr_delta", "sell_delta", "sell_pattern"] {
        let stored = store(&formats::named(name), &matrix.view(), PLAIN).unwrap();
        assert!(stored.layout.escapes > 100, "{name}: {} aside", stored.layout.escapes);
        holds(&matrix, &stored, Basis::Permuted);
    }
}

#[test]
fn without_escape_a_far_column_is_named() {
    let text = "format tight { store row, slot; index delta(u16, base = row); }";
    let tight = kernelwright_syntax::compile("t.kw", text).unwrap().formats.remove(0);
    let rows = vec![vec![0, 1], vec![3, 70_000], vec![2]];
    let matrix = Csr::new("far", 80_000, rows, 1);
    let options = Options { basis: Basis::Given, diagonal: false };
    let error = store(&tight, &matrix.view(), options).unwrap_err();
    assert_eq!(error, FormatError::TooFar { format: "tight".into(), row: 1, column: 70_000 });
    let predicted = kernelwright_codegen::format::predict(&tight, &matrix.view(), Basis::Given).unwrap_err();
    assert_eq!(predicted, error);
}

/// Of a stencil in the given order every chunk follows from its distances; sorted, those of the boundary do not.
#[test]
fn rows_of_one_shape_store_no_codes() {
    let stencil = matrices::square().remove(8);
    let codes = |name: &str| {
        let stored = store(&formats::named(name), &stencil.view(), PLAIN).unwrap();
        holds(&stencil, &stored, Basis::Permuted);
        (stored.layout.array(Role::Code).map_or(0, |(_, array)| array.len), stored.layout.cells)
    };
    assert_eq!(codes("odd_aligned_outside").0, codes("odd_aligned_outside").1, "lanes outside: all codes are stored");
    // The first and the last of three chunks have rows whose padding would lie outside of the matrix.
    assert_eq!(codes("sliced_dia"), (2 * 5 * 64, 3 * 5 * 64));
    let (some, all) = codes("odd_pattern_lanes");
    assert!(0 < some && some < all, "{some} of {all}");
}

/// A distance that leads out of the matrix from a row without the entry: padding is coded, whatever that costs.
#[test]
fn padding_stays_inside() {
    let n = 40;
    let right = |i: usize| if i.is_multiple_of(2) { vec![i, (i + 3).min(n - 1)] } else { vec![i] };
    let left = |i: usize| if i.is_multiple_of(3) { vec![i.saturating_sub(5)] } else { vec![i.saturating_sub(2), i] };
    for (name, row) in [("right", &right as &dyn Fn(usize) -> Vec<usize>), ("left", &left)] {
        let matrix = Csr::new(name, n, (0..n).map(row).collect(), 4);
        for format in formats::all() {
            let stored = store(&format, &matrix.view(), PLAIN).unwrap();
            holds(&matrix, &stored, Basis::Permuted);
        }
    }
}

#[test]
fn codes_of_a_chunk_decode() {
    let far = |n: u64| (0..n).map(|k| k * 100_003).collect::<Vec<u64>>();
    let cases = [
        vec![],
        vec![7],
        (5..70).collect(),
        far(10),
        far(70_000),
        (0..80_000).collect(),
        [far(3), vec![9; 4]].concat(),
    ];
    for columns in cases {
        let cell = |&column: &u64| Cell { column: Some(column), fill: column, unit: 0, follows: false };
        let mut cells: Vec<Cell> = columns.iter().map(cell).collect();
        let last = columns.last().copied().unwrap_or(0);
        cells.push(Cell { column: None, fill: last, unit: 0, follows: false });
        let coded = chunk(&cells, 1, 0);
        for (n, cell) in cells.iter().enumerate() {
            let aside = |n: u64| coded.aside[n as usize];
            let column = decode(coded.codes[n], coded.bases[0], coded.aside.len() as u64, &aside, n as u64);
            match cell.column {
                Some(wanted) => assert_eq!(column, wanted),
                None => assert!(column <= last, "padding reads {column}"),
            }
        }
    }
    let near: Vec<Cell> = (0..65_536).map(|c| Cell { column: Some(c + 9), fill: 0, unit: 0, follows: false }).collect();
    assert!(chunk(&near, 1, 0).aside.is_empty(), "a window holds 65536 columns");
}

#[test]
fn diagonals_are_stored_in_order_and_a_zero_names_its_row() {
    let matrix = Csr::new("holes", 4, vec![vec![0, 1, 2], vec![1], vec![0, 3], vec![0, 1, 2, 3]], 3);
    let stored = store(&formats::named("pjds"), &matrix.view(), PLAIN).unwrap();
    assert_eq!(stored.order, Some(vec![3, 0, 2, 1]));
    assert_eq!(stored.zero_diagonal, Some(2));
    let (number, _) = stored.layout.array(Role::Diagonal).unwrap();
    let diagonal = |row: usize| matrix.row(row).find(|e| e.0 == row).map_or(0.0, |e| e.1);
    assert_eq!(stored.contents[number].reals(), [3, 0, 2, 1].map(diagonal));
    let whole = store(&formats::named("csr"), &matrices::square()[2].view(), PLAIN).unwrap();
    assert_eq!((whole.order, whole.zero_diagonal), (None, None));
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let csr = formats::named("csr");
    let empty = Csr::new("empty", 0, vec![], 1);
    assert_eq!(store(&csr, &empty.view(), PLAIN).unwrap_err(), FormatError::Empty);
    let mut broken = matrices::square().remove(5);
    broken.column.swap(0, 1);
    assert!(matches!(store(&csr, &broken.view(), PLAIN).unwrap_err(), FormatError::Matrix(_)));
    let lengths: Vec<u64> = (0..60_000).map(|row| if row == 7 { 50_000 } else { 1 }).collect();
    let padded = layout::arrange(&formats::named("ellpack"), 60_000, 60_000, &lengths).unwrap_err();
    assert!(padded.to_string().contains("3000000000 cells for 109999 entries"), "{padded}");
    assert!(layout::arrange(&formats::named("pjds"), 60_000, 60_000, &lengths).is_ok());
    let oblong = matrices::oblong().remove(0);
    assert_eq!(store(&formats::named("pjds"), &oblong.view(), PLAIN).unwrap_err(), FormatError::NotSquare);
}
