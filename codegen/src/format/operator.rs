//! The linear operator of a stored matrix.

use super::layout::Layout;
use super::{Companion, Stored};
use crate::math::{Axis, BinaryOp, Centring, Data, Expr, Grid, KnownFact, Operator, Outside, Row, Rows, Rule, Space};

/// The operator whose rows are the rows of a matrix stored in a layout: `A u = sum over slots of value * u[column]`.
///
/// Its data are the arrays of the layout, in order, so that `Arg::Data(n)` of a launch is array n of
/// [`Stored::contents`](super::Stored). `facts` is what is known of the matrix: solvers require some.
pub fn operator(name: &str, layout: &Layout, facts: Vec<KnownFact>) -> Operator {
    made(name, layout, &[], facts)
}

/// The same with the companions that a matrix is stored with.
pub fn with_companions(name: &str, stored: &Stored, facts: Vec<KnownFact>) -> Operator {
    made(name, &stored.layout, &stored.companions, facts)
}

fn made(name: &str, layout: &Layout, companions: &[Companion], facts: Vec<KnownFact>) -> Operator {
    let product = Expr::Binary(BinaryOp::Mul, Box::new(Expr::Entry), Box::new(Expr::Gather(0)));
    let data = |name: String, array: &super::Array| Data {
        name,
        axes: Vec::new(),
        half: None,
        outside: Outside::Error,
        profile: false,
        stored: Some(array.clone()),
    };
    let beside = companions.iter().flat_map(|companion| {
        let of = companion.of.name();
        companion.layout.arrays.iter().map(move |array| data(format!("{of}_{}", array.role.name()), array))
    });
    let axis = Axis { letter: "row".into(), size_name: "rows".into(), size: layout.size };
    Operator {
        name: name.into(),
        space: Space::Rows(Box::new(Rows {
            line: Grid { axes: vec![axis], centring: Centring::Cells, components: 1 },
            layout: layout.clone(),
            companions: companions.to_vec(),
        })),
        params: Vec::new(),
        data: layout.arrays.iter().map(|array| data(array.role.name().into(), array)).chain(beside).collect(),
        lets: Vec::new(),
        tables: Vec::new(),
        fluxes: Vec::new(),
        unknowns: vec!["u".into()],
        rows: vec![Row {
            value: Expr::Slots(Box::new(product)),
            text: format!("row of {name}: sum over its slots of value*u[column], format {}", layout.format.name),
        }],
        boundary: vec![[Rule::NoFlux, Rule::NoFlux]],
        mask: None,
        nullspace: false,
        facts,
    }
}
