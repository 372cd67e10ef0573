//! What preconditioners of a matrix multiply with: against definitions, and in whole loops.

use std::collections::BTreeMap;

use crate::formats;
use crate::loops::{found_of, matrix, plans, run};
use crate::matrices::Csr;
use kernelwright_codegen::format::{
    Basis, Companion, Derived, FormatError, Options, Role, Stored, companion, decode, store, with_companions,
};
use kernelwright_codegen::map::Target;
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_syntax::program::{Precision, Preconditioner, Solver};

const OPTIONS: Options = Options { basis: Basis::Permuted, diagonal: true };

/// A matrix in a format, with what a preconditioner multiplies with.
fn with(format: &str, matrix: &Csr, preconditioner: &Preconditioner) -> Stored {
    let mut stored = store(&formats::named(format), &matrix.view(), OPTIONS).unwrap();
    companion::add(&mut stored, &matrix.view(), preconditioner).unwrap();
    stored
}

/// The same with its transpose.
fn with_transpose(format: &str, matrix: &Csr) -> Stored {
    let mut stored = with(format, matrix, &Preconditioner::Identity);
    companion::add_transpose(&mut stored, &matrix.view()).unwrap();
    stored
}

/// Entries of a companion by row and column of the given matrix, and the steps of its rows.
fn entries(stored: &Stored, number: usize) -> (BTreeMap<(usize, usize), f64>, Vec<f64>) {
    let before = |c: &Companion| c.layout.arrays.len();
    let first = stored.layout.arrays.len() + stored.companions[..number].iter().map(before).sum::<usize>();
    let layout = &stored.companions[number].layout;
    let contents = &stored.contents[first..][..layout.arrays.len()];
    let get = |role: Role, at: u64| {
        let (number, _) = layout.array(role).unwrap();
        contents[number].real(at as usize)
    };
    let given = |row: u64| stored.order.as_ref().map_or(row, |order| order[row as usize]) as usize;
    let mut steps = vec![0.0; layout.size as usize];
    let mut found = BTreeMap::new();
    for row in 0..layout.size {
        for (column, value) in decode::row(layout, &get, row) {
            *found.entry((given(row), given(column))).or_insert(0.0) += value;
        }
        steps[given(row)] = if layout.array(Role::Step).is_some() { get(Role::Step, row) } else { 0.0 };
    }
    (found, steps)
}

#[test]
fn the_transpose_has_every_entry_mirrored() {
    let matrix = matrix();
    let cells = (0..matrix.rows()).flat_map(|row| matrix.row(row).map(move |(column, value)| ((column, row), value)));
    let expected: BTreeMap<(usize, usize), f64> = cells.collect();
    for format in ["csr", "sell_c_sigma", "pjds"] {
        let stored = with_transpose(format, &matrix);
        assert_eq!(stored.companions[0].of, Derived::Transpose);
        assert_eq!(entries(&stored, 0).0, expected, "{format}");
    }
}

#[test]
fn blocks_times_their_inverses_are_the_identity() {
    let matrix = matrix();
    let n = matrix.rows();
    for (size, format) in [(1, "csr"), (3, "csr"), (4, "sell_c_sigma"), (7, "pjds"), (32, "csr")] {
        let stored = with(format, &matrix, &Preconditioner::BlockJacobi(size));
        let (inverse, _) = entries(&stored, 0);
        let size = size as usize;
        assert!(inverse.iter().all(|((row, column), value)| row / size == column / size || *value == 0.0));
        for (row, column) in (0..n).flat_map(|row| (0..n).map(move |column| (row, column))) {
            if row / size != column / size {
                continue;
            }
            let terms = matrix.row(row).filter(|(k, _)| k / size == column / size);
            let terms: Vec<f64> = terms.map(|(k, value)| value * inverse.get(&(k, column)).unwrap_or(&0.0)).collect();
            let (sum, magnitude): (f64, f64) = (terms.iter().sum(), terms.iter().map(|t| t.abs()).sum());
            // The right residual of an inverse by elimination with pivoting (Higham 2002, section 14.3), growth below 100.
            let allowed = 100.0 * (size * size) as f64 * f64::EPSILON * (1.0 + magnitude) * size as f64;
            let expected = f64::from(u8::from(row == column));
            assert!((sum - expected).abs() <= allowed, "blocks of {size} in {format}: {sum} at {row}, {column}");
        }
    }
}

#[test]
fn the_inverse_of_a_symmetric_block_is_symmetric() {
    let mut matrix = Csr::new("dense", 6, (0..6).map(|_| (0..6).collect()).collect(), 4);
    let mirrored: Vec<f64> = (0..36).map(|at| matrix.value[at] + matrix.value[at % 6 * 6 + at / 6]).collect();
    matrix.value = mirrored;
    let (inverse, _) = entries(&with("csr", &matrix, &Preconditioner::BlockJacobi(6)), 0);
    assert!(inverse.iter().all(|((row, column), value)| inverse[&(*column, *row)] == *value));
}

/// Nine rows: alone, but for a block of the middle four, of which the second and third are proportional up to rounding.
fn singular() -> Csr {
    let dense = [[2.0, 1.0, 0.0, 0.0], [0.3, 0.1, 0.2, 0.4], [0.9, 0.3, 0.6, 1.2], [0.0, 0.0, 0.0, 3.0]];
    let rows = (0..9).map(|row| if (4..8).contains(&row) { (4..8).collect() } else { vec![row] }).collect();
    let mut matrix = Csr::new("singular", 9, rows, 1);
    for row in 4..8 {
        let at = matrix.starts[row];
        matrix.value[at..at + 4].copy_from_slice(&dense[row - 4]);
    }
    matrix
}

#[test]
fn a_singular_block_names_its_first_row() {
    let matrix = singular();
    let stored = store(&formats::named("csr"), &matrix.view(), OPTIONS).unwrap();
    for (size, first) in [(4, 4), (8, 0)] {
        let found = companion::add(&mut stored.clone(), &matrix.view(), &Preconditioner::BlockJacobi(size));
        assert_eq!(found, Err(FormatError::Singular { row: first, size: u64::from(size) }));
    }
    assert_eq!(companion::add(&mut stored.clone(), &matrix.view(), &Preconditioner::BlockJacobi(1)), Ok(()));
    // Badly scaled is not singular.
    let mut scaled = Csr::new("scaled", 2, vec![vec![0, 1], vec![0, 1]], 1);
    scaled.value = vec![1e-30, 2e-30, 3e20, 5e20];
    let mut stored = store(&formats::named("csr"), &scaled.view(), OPTIONS).unwrap();
    assert_eq!(companion::add(&mut stored, &scaled.view(), &Preconditioner::BlockJacobi(2)), Ok(()));
}

#[test]
fn sweeps_are_the_triangles_of_a_colouring() {
    let matrix = matrix();
    let n = matrix.rows();
    let diagonal: Vec<f64> = (0..n).map(|row| matrix.row(row).find(|c| c.0 == row).unwrap().1).collect();
    for (relaxation, format) in [(1.0, "csr"), (1.5, "sell_c_sigma"), (0.25, "pjds")] {
        let stored = with(format, &matrix, &Preconditioner::Ssor(relaxation));
        let steps = stored.companions[0].of.products();
        for (number, backward) in [(0, false), (1, true)] {
            assert_eq!(stored.companions[number].of, Derived::Sweep { relaxation, backward, steps });
        }
        let ((forward, colour), (backward, back)) = (entries(&stored, 0), entries(&stored, 1));
        assert!((0..n).all(|row| colour[row] + back[row] == f64::from(steps)), "one order, and its reverse");
        assert_eq!(colour.iter().copied().fold(0.0, f64::max), f64::from(steps), "no colour is empty");
        let mut expected = [BTreeMap::new(), BTreeMap::new()];
        for (row, (column, value)) in (0..n).flat_map(|row| matrix.row(row).map(move |cell| (row, cell))) {
            if row != column {
                assert_ne!(colour[row], colour[column], "{row} and {column} are neighbours");
                let later = colour[column] > colour[row];
                expected[usize::from(later)].insert((row, column), relaxation * value / diagonal[row]);
            }
        }
        assert_eq!([forward, backward], expected, "{relaxation} in {format}");
    }
}

/// Rows of two colours: neighbours on a line, and some of the other parity.
fn two_colours() -> Csr {
    let n = 41;
    let near = |i: usize| [i.checked_sub(1), Some(i + 1), Some((i * 3 + 9) % n)];
    let other = |i: usize| move |k: &usize| *k < n && k % 2 != i % 2;
    let row = |i: usize| near(i).into_iter().flatten().filter(other(i)).chain([i]).collect();
    let mut csr = Csr::new("two colours", n, (0..n).map(row).collect(), 1);
    csr.value.iter_mut().enumerate().for_each(|(number, value)| *value = 1.0 + ((number * 5) % 7) as f64);
    csr
}

/// All schedules of a loop with a preconditioner.
fn schedules(matrix: &Csr, solver: &Solver, preconditioner: &Preconditioner) -> (Stored, Vec<Plan>) {
    let stored = with("sell_c_sigma", matrix, preconditioner);
    let operator = with_companions("matrix", &stored, Vec::new());
    let plans = plans(&operator, solver, preconditioner);
    (stored, plans)
}

/// A loop whose preconditioner is applied to values without a name.
fn refined() -> Solver {
    let text = "solver refined(A: any, M: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat { z = inv(M)*r; u = u + z + inv(M)*(r - A*z); r = f - A*u; check; }
    }";
    kernelwright_syntax::compile("refined.kw", text).unwrap().solvers.remove(0)
}

#[test]
fn all_schedules_agree_with_companions() {
    let [block, ssor] = [Preconditioner::BlockJacobi(3), Preconditioner::Ssor(1.5)];
    // Of two colours each sweep is one product; of many it is a loop.
    for (matrix, preconditioner) in [(two_colours(), &block), (two_colours(), &ssor), (matrix(), &ssor)] {
        let pcg = kernelwright_syntax::library::solver("pcg").unwrap();
        let (stored, plans) = schedules(&matrix, &pcg, preconditioner);
        let expected = run(&plans[0], &stored, Target::Host, |_| {});
        for plan in &plans {
            for (target, lanes) in [(Target::Host, 1), (Target::Cuda, 8)] {
                let found = run(plan, &stored, target, |variant| variant.row_lanes = Some(lanes));
                assert_eq!(found, expected, "{preconditioner:?}, {} for {target:?}", plan.schedule.name);
            }
        }
    }
}

#[test]
fn loops_with_companions_are_placed() {
    let [block, ssor] = [Preconditioner::BlockJacobi(3), Preconditioner::Ssor(1.5)];
    // What a matrix gathers must be there: a sweep for each product around the loop's longest way, and one for p.
    let [pcg, bicgstab] = ["pcg", "bicgstab"].map(|name| kernelwright_syntax::library::solver(name).unwrap());
    for (solver, preconditioner, sweeps) in [
        (&pcg, &block, 4.0),
        (&bicgstab, &block, 7.0),
        (&refined(), &block, 4.0),
        (&pcg, &ssor, 5.0),
        (&bicgstab, &ssor, 9.0),
    ] {
        let (_, plans) = schedules(&two_colours(), solver, preconditioner);
        let same = plans[1..].iter().filter(|plan| plan.schedule.arithmetic == Arithmetic::Same);
        let placed = same.filter(|plan| plan.schedule.main.is_some());
        let least = placed.map(|plan| plan.cost.sweeps).fold(f64::INFINITY, f64::min);
        assert_eq!(least, sweeps, "{}, {preconditioner:?}", solver.name);
    }
}

/// Conjugate gradients on the normal equations (Saad 2003, section 8.3).
fn cgnr() -> Solver {
    let text = "solver cgnr(A: any) {
        residual r = f - A*u;
        z = transpose(A)*r;
        gamma = dot(z, z);
        p = z;
        converge when norm(r) <= tolerance*norm(f);
        repeat {
            q = A*p;
            alpha = gamma/dot(q, q);
            u = u + alpha*p;
            r = r - alpha*q;
            check;
            z = transpose(A)*r;
            gamma_new = dot(z, z);
            beta = gamma_new/gamma;
            gamma = gamma_new;
            p = z + beta*p;
        }
    }";
    kernelwright_syntax::compile("cgnr.kw", text).unwrap().solvers.remove(0)
}

#[test]
fn loops_with_the_transpose_agree_in_all_formats_and_schedules() {
    let mut expected = None;
    for name in ["csr", "pjds", "sell_c_sigma"] {
        let stored = with_transpose(name, &matrix());
        let operator = with_companions("matrix", &stored, Vec::new());
        for plan in plans(&operator, &cgnr(), &Preconditioner::Identity) {
            for target in [Target::Host, Target::Cuda] {
                let found = run(&plan, &stored, target, |_| {});
                assert_eq!(&found, expected.get_or_insert_with(|| found_of(&found)), "{name}, {}", plan.schedule.name);
            }
        }
    }
}

#[test]
fn companions_move_with_the_rows_of_every_format() {
    let matrix = matrix();
    let solver = kernelwright_syntax::library::solver("pcg").unwrap();
    for preconditioner in [Preconditioner::BlockJacobi(4), Preconditioner::Ssor(0.5)] {
        let mut expected = None;
        for name in ["csr", "coo", "pjds", "sell_delta", "odd_csr_sorted"] {
            let stored = with(name, &matrix, &preconditioner);
            let plans = plans(&with_companions("matrix", &stored, Vec::new()), &solver, &preconditioner);
            let plain = plans.iter().find(|plan| plan.schedule.arithmetic == Arithmetic::Same).unwrap();
            // Products cut by entries ahead of a sweep, where the format allows it.
            let found = run(plain, &stored, Target::Cuda, |variant| variant.balanced = Some(true));
            assert_eq!(&found, expected.get_or_insert_with(|| found_of(&found)), "{name}");
        }
    }
}

#[test]
fn what_a_matrix_was_not_stored_with_is_asked_for() {
    let stored = with("csr", &matrix(), &Preconditioner::BlockJacobi(4));
    let operator = with_companions("matrix", &stored, Vec::new());
    let solver = kernelwright_syntax::library::solver("pcg").unwrap();
    let solvers = std::slice::from_ref(&solver);
    for preconditioner in [&Preconditioner::BlockJacobi(3), &Preconditioner::Ssor(1.0)] {
        let input = Input { operator: &operator, solvers, solver: 0, preconditioner, precision: Precision::F64 };
        assert!(trace(input).is_err_and(|e| e.message.contains("stored without")), "{preconditioner:?}");
    }
    let (solvers, preconditioner) = (&[cgnr()][..], &Preconditioner::Identity);
    let input = Input { operator: &operator, solvers, solver: 0, preconditioner, precision: Precision::F64 };
    assert!(trace(input).is_err_and(|e| e.message.contains("`transpose` multiplies with")));
}
