//! What is known of an operator: proved from its couplings, tested with its values, or refuted.
//!
//! [`establish`] needs nothing but the operator: symmetry by comparing couplings from both ends, definiteness by signs.
//! What it leaves to be tested, [`test`] decides once parameters and arrays are known: signs again, now with values
//! on the whole grid; then the matrix assembled on a small one.

mod canonical;
mod dense;
mod dominance;
mod probe;
mod range;
mod symmetry;

use std::collections::BTreeMap;

use kernelwright_syntax::program as p;

use crate::couplings::terms;
use crate::lower::{LowerError, lower};
use crate::math::{Fact, KnownFact, Operator, Rule, Shift, Standing};
use crate::math_eval::{EvalError, Tables};

pub use probe::{Probe, probe};

use canonical::Poly;
use range::Ranges;
use symmetry::Symmetry;

/// Largest size of an axis, and most unknowns, of the grid on which [`test`] assembles.
const SMALL: (u64, u64) = (7, 400);

/// Why a test could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum TestError {
    #[error(transparent)]
    Eval(#[from] EvalError),
    #[error(transparent)]
    Lower(#[from] LowerError),
}

/// What the operator alone tells about the wanted facts, in their order: proved, refuted or to be tested.
pub fn establish(op: &Operator, wanted: &[Fact]) -> Vec<KnownFact> {
    let symmetry = symmetry::symmetric(op);
    let ranges = Ranges::new(op, None);
    wanted.iter().map(|&fact| decide(fact, &symmetry, &ranges, Standing::Proved)).collect()
}

/// Decides the wanted facts with the operator's parameters and arrays (f64, first axis fastest).
///
/// `op` is `source` lowered for the sizes of the arrays. A fact that signs do not decide is tested on a grid of at most
/// seven points an axis, with the beginnings of the arrays.
///
/// # Errors
/// When parameters or arrays do not fit.
pub fn test(
    source: &p::Operator,
    op: &Operator,
    wanted: &[Fact],
    params: &[f64],
    data: &[Vec<f64>],
) -> Result<Vec<KnownFact>, TestError> {
    let symmetry = symmetry::symmetric(op);
    let ranges = Ranges::new(op, Some(Tables::new(op, params, data)?));
    let mut facts = establish(op, wanted);
    let mut small: Option<Probe> = None;
    for known in &mut facts {
        if known.standing == Standing::ToTest {
            *known = decide(known.fact, &symmetry, &ranges, Standing::Tested);
        }
        if known.standing == Standing::ToTest {
            let probe = match &small {
                Some(probe) => probe,
                None => small.insert(probe_small(source, op, params, data)?),
            };
            let (standing, why) = match probe.holds(known.fact) {
                Ok(why) => (Standing::Tested, why),
                Err(why) => (Standing::Refuted, why),
            };
            *known = KnownFact { fact: known.fact, standing, why };
        }
    }
    Ok(facts)
}

fn decide(fact: Fact, symmetry: &Symmetry, ranges: &Ranges, decided: Standing) -> KnownFact {
    let signs = |outcome: Result<String, String>| match outcome {
        Ok(why) => (decided, why),
        Err(why) => (Standing::ToTest, why),
    };
    let (standing, why) = match (fact, symmetry) {
        (Fact::Symmetric, Symmetry::Proved(why)) => (Standing::Proved, why.clone()),
        (Fact::Symmetric, Symmetry::Refuted(why)) => (Standing::Refuted, why.clone()),
        (Fact::Symmetric, Symmetry::Open(why)) => (Standing::ToTest, why.clone()),
        (Fact::PositiveDefinite, Symmetry::Proved(_)) => signs(dominance::definite(ranges)),
        (Fact::PositiveDefinite, _) => (Standing::ToTest, "symmetry is not proved".to_string()),
        (Fact::MMatrix, _) => signs(dominance::m_matrix(ranges)),
    };
    KnownFact { fact, standing, why }
}

/// Assembles the operator on a small grid.
fn probe_small(source: &p::Operator, op: &Operator, params: &[f64], data: &[Vec<f64>]) -> Result<Probe, TestError> {
    let grid = op.space.grid();
    let sizes: Vec<u64> = grid.axes.iter().map(|a| a.size).collect();
    let shrunk = |most: u64| sizes.iter().map(|n| (*n).min(most)).collect::<Vec<u64>>();
    let unknowns = |sizes: &[u64]| sizes.iter().product::<u64>() * grid.components as u64;
    let most = (1..=SMALL.0).rev().find(|&m| unknowns(&shrunk(m)) <= SMALL.1).unwrap_or(1);
    let small_sizes = shrunk(most);
    let small = if small_sizes == sizes { op.clone() } else { lower(source, &small_sizes)? };
    let data: Vec<Vec<f64>> = op.data.iter().zip(data).map(|(d, v)| beginning(d, v, &sizes, &small_sizes)).collect();
    Ok(probe(&small, params, &data)?)
}

/// The elements of an array that a smaller grid has.
fn beginning(d: &crate::math::Data, values: &[f64], sizes: &[u64], small: &[u64]) -> Vec<f64> {
    let extent = |sizes: &[u64], a: usize| (sizes[a] + u64::from(d.half == Some(a))) as usize;
    let total: usize = d.axes.iter().map(|&a| extent(small, a)).product();
    let source = |n: usize| {
        let (mut rest, mut index, mut stride) = (n, 0, 1);
        for &a in &d.axes {
            index += rest % extent(small, a) * stride;
            rest /= extent(small, a);
            stride *= extent(sizes, a);
        }
        values[index]
    };
    (0..total).map(source).collect()
}

/// Whether A times a constant vector is zero identically: only no-flux and periodic sides, and every row a sum of
/// differences, or of coefficients that cancel. Operators with several unknowns or a mask are not recognised.
pub fn constants_vanish(op: &Operator) -> bool {
    let open = op.boundary.iter().flatten().any(|r| matches!(r, Rule::Dirichlet(_)));
    if open || op.mask.is_some() || op.rows.len() != 1 {
        return false;
    }
    // A flux vanishes on some faces: what it adds to the sum must cancel within itself.
    let mut sums: BTreeMap<Option<(usize, Shift)>, Poly> = BTreeMap::new();
    for term in terms(op, 0).iter().filter(|t| t.minus.is_none()) {
        let at = term.flux.map_or([0; 3], |(_, s)| s);
        let Some(c) = Poly::from(op, &term.coefficient, at) else { return false };
        let outer = term.outer.as_ref().map_or(Some(c.clone()), |o| Poly::from(op, o, [0; 3])?.times(&c));
        let Some(c) = outer else { return false };
        let sum = sums.remove(&term.flux).unwrap_or_default().plus(&c);
        sums.insert(term.flux, sum);
    }
    sums.values().all(Poly::is_zero)
}
