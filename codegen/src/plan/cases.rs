//! Solvers and operators for the tests of trace, plan, apply and check.

use kernelwright_syntax::program::{Precision, Preconditioner, Solver};

use crate::graph::Graph;
use crate::math::{
    Axis, Centring, Expr, Fact, Grid, KnownFact, Operator, Row, Rule, Space, Standing, Table, TableExpr,
};
use crate::trace::{Input, trace};

/// A case: solvers, the outer one, its preconditioner, the operator.
pub struct Case {
    /// Solvers.
    pub solvers: Vec<Solver>,
    /// Outer one.
    pub solver: usize,
    /// Its preconditioner.
    pub preconditioner: Preconditioner,
    /// The operator.
    pub operator: Operator,
}

impl Case {
    /// A solver of the library.
    pub fn library(name: &str, preconditioner: Preconditioner) -> Case {
        let solver = kernelwright_syntax::library::solver(name).expect("a solver of the library");
        Case { solvers: vec![solver], solver: 0, preconditioner, operator: operator() }
    }

    /// A solver from text.
    pub fn text(text: &str, preconditioner: Preconditioner) -> Case {
        let program = kernelwright_syntax::compile("case.kw", text).unwrap_or_else(|e| panic!("{e:?}"));
        Case { solvers: program.solvers, solver: 0, preconditioner, operator: operator() }
    }

    /// Another solver as preconditioner.
    pub fn inner(mut self, name: &str, iterations: u32, preconditioner: Preconditioner) -> Case {
        let solver = kernelwright_syntax::library::solver(name).expect("a solver of the library");
        let params = solver.params.iter().map(|p| p.default.unwrap_or(0.5)).collect();
        self.solvers.push(solver);
        let solver = self.solvers.len() - 1;
        let preconditioner = Box::new(preconditioner);
        self.preconditioner = Preconditioner::Inner { solver, params, iterations, preconditioner };
        self
    }

    /// Constants in the null space.
    pub fn singular(mut self) -> Case {
        self.operator.nullspace = true;
        self
    }

    /// Boundary values that are not zero.
    pub fn boundary_values(mut self) -> Case {
        self.operator.tables[0].value = TableExpr::Number(2.0);
        self
    }

    /// A row with a term that reads no unknown.
    pub fn source(mut self) -> Case {
        let row = &mut self.operator.rows[0].value;
        let value = std::mem::replace(row, Expr::Number(0.0));
        *row = Expr::Binary(crate::math::BinaryOp::Sub, Box::new(value), Box::new(Expr::Number(3.0)));
        self
    }

    /// The graph.
    pub fn graph(&self) -> Graph {
        let input = Input {
            operator: &self.operator,
            solvers: &self.solvers,
            solver: self.solver,
            preconditioner: &self.preconditioner,
            precision: Precision::F64,
        };
        trace(input).expect("the case can be traced")
    }

    /// Checks a program against the case.
    pub fn check(&self, program: &crate::loops::Program) -> Result<(), String> {
        crate::check::check(program, &self.solvers, self.solver, &self.preconditioner)
    }
}

/// -u[i-1] + 2u - u[i+1] along the last of three axes; the tests need its space and sides only.
pub fn operator() -> Operator {
    let axis = |letter: &str| Axis { letter: letter.into(), size_name: format!("n{letter}"), size: 4 };
    let fact = |fact| KnownFact { fact, standing: Standing::Proved, why: String::new() };
    let at = |s: i32| Box::new(Expr::Unknown(0, [0, 0, s]));
    let sum = Expr::Binary(crate::math::BinaryOp::Add, at(-1), at(1));
    let value = Expr::Binary(crate::math::BinaryOp::Sub, at(0), Box::new(sum));
    Operator {
        name: "line".into(),
        space: Space::Axes(Grid { axes: ["i", "j", "k"].map(axis).to_vec(), centring: Centring::Cells, components: 1 }),
        params: Vec::new(),
        data: Vec::new(),
        lets: Vec::new(),
        tables: vec![Table {
            name: "zero".into(),
            axes: Vec::new(),
            below: [0; 3],
            above: [0; 3],
            value: TableExpr::Number(0.0),
            text: "0".into(),
        }],
        fluxes: Vec::new(),
        unknowns: vec!["u".into()],
        rows: vec![Row { value, text: "u - u[k-1] - u[k+1]".into() }],
        boundary: vec![
            [Rule::Periodic, Rule::Periodic],
            [Rule::NoFlux, Rule::NoFlux],
            [Rule::Dirichlet(0), Rule::Dirichlet(0)],
        ],
        mask: None,
        nullspace: false,
        facts: vec![fact(Fact::Symmetric), fact(Fact::PositiveDefinite)],
    }
}
