//! From a checked program to Math IR: which coefficients are stored, which are computed in the rows.
//!
//! - A maximal coefficient (free of unknowns) that depends on fewer axes than the grid has becomes one table; on a grid
//!   of one axis, every coefficient that depends on the letter does.
//! - A product over all axes is split by the axes its factors depend on, one table a group ([`coefficient`]). What is
//!   no such product becomes a table of the full grid: stored once, evaluated in f64.
//! - What involves an array of the full grid stays arithmetic, its lower-dimensional parts tabulated.
//! - Numbers stay numbers; expressions of parameters become tables without axes, so that a row has one load of them.
//!
//! Signs and divisions go into tables. Differences of unknowns stay differences; nothing is folded into a diagonal.

mod coefficient;
mod margins;
mod node;
mod store;

use kernelwright_syntax::program as p;
use kernelwright_syntax::source::Span;

use crate::facts;
use crate::math::{self, Grid, Space};

pub(crate) use margins::required as required_margins;

use coefficient::Rows;
use node::{Source, Traits};
use store::{Role, Store};

/// Why an operator could not be lowered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// A row, flux or let grows beyond what the compiler handles once lets are substituted.
    #[error("operator {operator}: this expression has more than {limit} parts once its lets are substituted; {help}")]
    TooLarge {
        /// Name of the operator.
        operator: String,
        /// Largest number of parts (or depth).
        limit: usize,
        /// What would help.
        help: &'static str,
        /// Where.
        span: Span,
    },
    /// Not linear in the unknowns.
    #[error("operator {operator}: {owner} is not linear in the unknowns: {what}")]
    NotLinear {
        /// Name of the operator.
        operator: String,
        /// Row or flux.
        owner: String,
        /// The offending construction.
        what: &'static str,
        /// Where.
        span: Span,
    },
    /// Sizes that no grid has.
    #[error("operator {operator}: {what}")]
    Sizes {
        /// Name of the operator.
        operator: String,
        /// What is wrong.
        what: String,
    },
}

impl LowerError {
    /// Where it stands in the source, if it is about an expression.
    pub fn span(&self) -> Option<Span> {
        match self {
            LowerError::TooLarge { span, .. } | LowerError::NotLinear { span, .. } => Some(*span),
            LowerError::Sizes { .. } => None,
        }
    }

    fn too_large(operator: &str, span: Span) -> Self {
        let help =
            "a let that reads the unknown several times is copied at every reading: name fewer steps or use fluxes";
        LowerError::TooLarge { operator: operator.to_string(), limit: node::LARGEST, help, span }
    }

    fn too_deep(operator: &str, span: Span) -> Self {
        let help = "nested too deeply";
        LowerError::TooLarge { operator: operator.to_string(), limit: DEEPEST, help, span }
    }
}

/// Deepest expression, lets substituted.
const DEEPEST: usize = 1000;

/// Lowers an operator for concrete sizes.
///
/// # Errors
/// When sizes do not fit, an expression is not linear, or it is too large after substitution.
pub fn lower(op: &p::Operator, sizes: &[u64]) -> Result<math::Operator, LowerError> {
    check_sizes(op, sizes)?;
    check_extent(op)?;
    let source = Source::new(op, sizes);
    let mut rows = Rows::new(&source);
    let fluxes = rows.fluxes()?;
    let lowered_rows = rows.rows()?;
    let mask = rows.mask()?;
    let mut store = rows.into_store();
    let boundary = boundary(&source, &mut store)?;
    let (lets, tables) = store.finish()?;
    let mut lowered = math::Operator {
        name: op.name.clone(),
        space: Space::Axes(grid(op, sizes)),
        params: op.params.iter().map(|p| p.name.clone()).collect(),
        data: op.data.iter().enumerate().map(|(n, d)| data(d, source.is_profile(n))).collect(),
        lets,
        tables,
        fluxes,
        unknowns: op.unknowns.clone(),
        rows: lowered_rows,
        boundary,
        mask,
        nullspace: false,
        facts: Vec::new(),
    };
    margins::widen(&mut lowered);
    lowered.nullspace = match op.nullspace {
        Some(p::NullSpace::Constant) => true,
        Some(p::NullSpace::None) => false,
        None => facts::constants_vanish(&lowered),
    };
    let claims: Vec<p::Fact> = op.claims.iter().map(|c| c.fact).collect();
    lowered.facts = facts::establish(&lowered, &claims);
    debug_assert_eq!(crate::math_verify::verify(&lowered), Ok(()));
    Ok(lowered)
}

fn check_sizes(op: &p::Operator, sizes: &[u64]) -> Result<(), LowerError> {
    let fail = |what: String| Err(LowerError::Sizes { operator: op.name.clone(), what });
    if sizes.len() != op.axes.len() {
        return fail(format!("{} sizes given for {} axes", sizes.len(), op.axes.len()));
    }
    let mut len = op.unknowns.len() as u64;
    for (axis, &n) in op.axes.iter().zip(sizes) {
        if n == 0 {
            return fail(format!("{} = 0: an axis has at least one point", axis.size));
        }
        // Positions are i64; one bit is left for margins and sums.
        len = match len.checked_mul(n) {
            Some(len) if len < 1 << 62 => len,
            _ => return fail("more points than a 64-bit index reaches".to_string()),
        };
    }
    Ok(())
}

/// Refuses lets, fluxes and rows that explode when substituted, before anything recursive is done with them.
fn check_extent(op: &p::Operator) -> Result<(), LowerError> {
    let mut lets: Vec<(usize, usize)> = Vec::new();
    let values = op.lets.iter().map(|l| &l.value).chain(op.fluxes.iter().map(|f| &f.value));
    let values = values.chain(op.apply.iter().map(|a| &a.value)).chain(&op.mask);
    for (n, value) in values.enumerate() {
        let (size, depth) = extent(value, &lets);
        if size > node::LARGEST {
            return Err(LowerError::too_large(&op.name, value.span));
        }
        if depth > DEEPEST {
            return Err(LowerError::too_deep(&op.name, value.span));
        }
        if n < op.lets.len() {
            lets.push((size, depth));
        }
    }
    Ok(())
}

/// Size and depth of an expression with lets substituted, saturating.
fn extent(e: &p::Expr, lets: &[(usize, usize)]) -> (usize, usize) {
    let sum = |parts: Vec<(usize, usize)>| {
        parts.iter().fold((1, 1), |(s, d): (usize, usize), p| (s.saturating_add(p.0), d.max(p.1.saturating_add(1))))
    };
    match &e.kind {
        p::ExprKind::Let(id, _) => sum(vec![lets[*id]]),
        p::ExprKind::Neg(a) => sum(vec![extent(a, lets)]),
        p::ExprKind::Binary(_, a, b) => sum(vec![extent(a, lets), extent(b, lets)]),
        p::ExprKind::Call(_, args) => sum(args.iter().map(|a| extent(a, lets)).collect()),
        p::ExprKind::If(c, a, b) => sum(vec![condition_extent(c, lets), extent(a, lets), extent(b, lets)]),
        _ => (1, 1),
    }
}

fn condition_extent(c: &p::Condition, lets: &[(usize, usize)]) -> (usize, usize) {
    let two = |a: (usize, usize), b: (usize, usize)| (a.0.saturating_add(b.0).saturating_add(1), a.1.max(b.1) + 1);
    match c {
        p::Condition::Compare(_, a, b) => two(extent(a, lets), extent(b, lets)),
        p::Condition::And(a, b) | p::Condition::Or(a, b) => two(condition_extent(a, lets), condition_extent(b, lets)),
        p::Condition::Not(a) => two(condition_extent(a, lets), (0, 0)),
    }
}

fn grid(op: &p::Operator, sizes: &[u64]) -> Grid {
    let axis = |(a, &n): (&p::Axis, &u64)| math::Axis { letter: a.letter.clone(), size_name: a.size.clone(), size: n };
    Grid { axes: op.axes.iter().zip(sizes).map(axis).collect(), centring: op.centring, components: op.unknowns.len() }
}

fn data(d: &p::Data, profile: bool) -> math::Data {
    math::Data { name: d.name.clone(), axes: d.axes.clone(), half: d.half, outside: d.outside, profile, stored: None }
}

fn boundary(source: &Source, store: &mut Store) -> Result<Vec<[math::Rule; 2]>, LowerError> {
    let mut out = Vec::new();
    for (axis, rules) in source.op.axes.iter().zip(&source.op.boundary) {
        let mut side = |rule: &p::Rule, name: &str| {
            Ok(match rule {
                p::Rule::NoFlux => math::Rule::NoFlux,
                p::Rule::Periodic => math::Rule::Periodic,
                p::Rule::Dirichlet(value) => {
                    let node = source.expand(value, [0; 3])?;
                    let Traits { unknown, data, .. } = source.traits(&node);
                    if unknown || data {
                        let owner = format!("the boundary of {}", axis.letter);
                        let what = "a prescribed value reads numbers, letters, parameters and profiles only";
                        let operator = source.op.name.clone();
                        return Err(LowerError::NotLinear { operator, owner, what, span: value.span });
                    }
                    let role = Role { owner: format!("boundary_{}_{name}", axis.letter), what: "" };
                    // Prescribed values are read where the position stands: a shared table must be at shift zero.
                    math::Rule::Dirichlet(store.unshifted(&node, &role))
                }
            })
        };
        out.push([side(&rules[0], "low")?, side(&rules[1], "high")?]);
    }
    Ok(out)
}
