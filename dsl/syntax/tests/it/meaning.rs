//! What checked programs say: shifts, axes, texts, solver statements, problems and their overrides.

use kernelwright_syntax::compile;
use kernelwright_syntax::program::{
    BinaryOp, Centring, ExprKind, Fact, Outside, Preconditioner, Problem, Program, Rule, Scalar, Source, StatementKind,
    Vector,
};

fn program(text: &str) -> Program {
    compile("test.kw", text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// An operator on three axes with the given statements.
fn operator(statements: &str, apply: &str) -> Program {
    program(&format!(
        "operator o {{ grid cells [i: nx, j: ny, k: nz]; {statements} apply u => {apply}; boundary i, j, k: no_flux; }}"
    ))
}

/// All names at shifts in an expression, in order of reading.
fn shifts(kind: &ExprKind, out: &mut Vec<[i32; 3]>) {
    match kind {
        ExprKind::Let(_, shift) | ExprKind::Data(_, shift) | ExprKind::Unknown(_, shift) | ExprKind::Flux(_, shift) => {
            out.push(*shift);
        }
        ExprKind::Neg(inner) => shifts(&inner.kind, out),
        ExprKind::Binary(_, left, right) => {
            shifts(&left.kind, out);
            shifts(&right.kind, out);
        }
        ExprKind::Call(_, arguments) => arguments.iter().for_each(|argument| shifts(&argument.kind, out)),
        _ => {}
    }
}

#[track_caller]
fn reads(statements: &str, apply: &str, expected: &[[i32; 3]]) {
    let mut found = Vec::new();
    shifts(&operator(statements, apply).operators[0].apply[0].value.kind, &mut found);
    assert_eq!(found, expected);
}

#[test]
fn positions_become_whole_shifts() {
    reads("", "u[k+1] - u[j-2, i+3]", &[[0, 0, 1], [3, -2, 0]]);
    reads("let rf[k+1/2] = k;", "(rf[k+1/2] - rf[k-1/2])*u", &[[0, 0, 0], [0, 0, -1], [0, 0, 0]]);
    reads("let rf[k+1/2] = k;", "(rf[k+3/2] - rf[k-3/2])*u", &[[0, 0, 1], [0, 0, -2], [0, 0, 0]]);
    reads("flux Z[k+1/2] = u[k+1] - u;", "div(Z)", &[[0, 0, 0], [0, 0, -1]]);
    reads("flux Z[k+1/2] = u[k+1] - u;", "Z[k+1/2, i-1]", &[[-1, 0, 0]]);
}

#[test]
fn a_bare_face_value_is_the_same_face() {
    let program = operator("let rf[k+1/2] = k; let sf[k+1/2] = rf + rf[k-1/2];", "sf[k+1/2]*u");
    let mut found = Vec::new();
    shifts(&program.operators[0].lets[1].value.kind, &mut found);
    assert_eq!(found, [[0, 0, 0], [0, 0, -1]]);
}

#[test]
fn axes_are_inferred() {
    let program =
        operator("let a = i; let b = a*k; let c[j+1/2] = 1; let d = b[i+1, k-1] + c[j+1/2]; let e = u;", "d*u + e");
    let lets = &program.operators[0].lets;
    let depends: Vec<[bool; 3]> = lets.iter().map(|value| value.depends).collect();
    let (t, f) = (true, false);
    assert_eq!(depends, [[t, f, f], [t, f, t], [f, t, f], [t, t, t], [t, t, t]]);
    assert_eq!(lets.iter().map(|value| value.half).collect::<Vec<_>>(), [None, None, Some(1), None, None]);
    assert!(lets[4].on_unknown && !lets[3].on_unknown);
}

#[test]
fn statements_keep_their_text() {
    let program = operator("let rf[k+1/2]=1+(  k*2 ) ;", "( rf[k+1/2]-rf[k-1/2] )* u");
    let operator = &program.operators[0];
    assert_eq!(operator.lets[0].text, "let rf[k+1/2] = 1 + k*2;");
    assert_eq!(operator.apply[0].text, "apply u => (rf[k+1/2] - rf[k-1/2])*u;");
}

#[test]
fn squares_of_large_expressions_are_powers() {
    let nested = (0..60).fold("i".to_string(), |inner, _| format!("sqr({inner})"));
    let size = format!("{:?}", operator(&format!("let a = {nested};"), "a*u")).len();
    assert!(size < 100_000, "{size}");
}

#[test]
fn operators_carry_everything_declared() {
    let program = program(
        "/// First.\n/// Second.\noperator o { grid nodes [i: nx, j: ny]; /// Speed.\nparam c = 1/4; data s[j] outside clamp; \
         data kx[i+1/2, j]; mask s; apply (a, b) => (a[i+1] + b, kx[i-1/2]*b); boundary i: periodic; \
         boundary low(j): dirichlet(sin(i)); boundary high(j): no_flux; nullspace none; claim spd, m_matrix; }",
    );
    let operator = &program.operators[0];
    assert_eq!((operator.doc.as_str(), operator.centring), ("First.\nSecond.", Centring::Nodes));
    assert_eq!((operator.params[0].default, operator.params[0].doc.as_str()), (Some(0.25), "Speed."));
    assert_eq!((operator.data[0].outside, operator.data[1].half), (Outside::Clamp, Some(0)));
    assert_eq!(operator.unknowns, ["a", "b"]);
    assert!(matches!(operator.boundary[1], [Rule::Dirichlet(_), Rule::NoFlux]));
    let facts: Vec<Fact> = operator.claims.iter().map(|claim| claim.fact).collect();
    assert_eq!(facts, [Fact::Symmetric, Fact::PositiveDefinite, Fact::MMatrix]);
}

#[test]
fn boundary_faces_without_flux_are_not_evaluated() {
    let statements = "data kappa[i, j, k]; let face[i+1/2] = kappa + kappa[i+1]; flux X[i+1/2] = face*(u[i+1] - u);";
    operator(statements, "div(X)");
    let open =
        "operator o { grid cells [i: nx]; data kappa[i]; flux X[i+1/2] = kappa[i+1]*(u[i+1] - u); apply u => div(X);";
    assert!(compile("open.kw", &format!("{open} boundary i: dirichlet(0); }}")).is_err());
    program(&format!("{open} boundary i: periodic; }}"));
}

#[test]
fn arrays_in_boundary_values_are_checked_where_unknowns_are_read() {
    let text = |apply: &str, rest: &str| {
        format!(
            "operator o {{ grid cells [i: nx, j: ny]; data g[j]; apply u => {apply}; boundary i: dirichlet(g); {rest} }}"
        )
    };
    program(&text("u[i+1] + u[j+1]", "boundary j: no_flux;"));
    assert!(compile("corner.kw", &text("u[i+1, j+1]", "boundary j: no_flux;")).is_err());
    program(&text("u[i+1, j+1]", "boundary j: periodic;"));
}

/// The right side of the last statement of a solver, which assigns a vector.
fn vector(statement: &str) -> Vector {
    let text = format!("solver s(A: any, M: any) {{ residual r = f - A*u; s = norm(r); w = r; {statement} }}");
    let StatementKind::AssignVector(_, vector) = program(&text).solvers[0].body.last().unwrap().kind.clone() else {
        panic!("{statement} assigns no vector");
    };
    vector
}

#[test]
fn products_of_operators_wait_for_their_vector() {
    let r = || Box::new(Vector::Var(kernelwright_syntax::program::VarId(2)));
    assert_eq!(vector("v = inv(M)*A*r;"), Vector::Solve(1, Box::new(Vector::Apply(0, r()))));
    assert_eq!(vector("v = -A*r;"), Vector::Neg(Box::new(Vector::Apply(0, r()))));
    assert_eq!(
        vector("v = 2*transpose(A)*r;"),
        Vector::Scale(Scalar::Number(2.0), Box::new(Vector::ApplyTranspose(0, r())))
    );
    assert_eq!(vector("w = 0;"), Vector::Zero);
    assert_eq!(vector("v = random(7);"), Vector::Random(7));
    assert!(matches!(vector("v = r/s;"), Vector::Scale(Scalar::Binary(BinaryOp::Div, ..), _)));
}

const PROBLEM: &str = "
    operator o { grid cells [i: nx, j: ny]; param omega, scale = 2, twice; let x = i/nx; data kappa[i, j];
                 apply u => omega*kappa*u; boundary i, j: no_flux; }
    problem p {
        operator o(nx = 16, ny = 4*2, omega = 8/nx, twice = 2*omega);
        data kappa = file(\"kappa.npy\", order = [j, i]);
        rhs x*omega;
        guess random(seed = 3);
        solver richardson(omega = 0.5);
        preconditioner inner(chebyshev(lower = 0.1), iterations = 4, preconditioner = line(j));
        tolerance 1e-5; iterations 7;
    }";

#[test]
fn problems_bind_everything() {
    let program = program(PROBLEM);
    let problem = &program.problems[0];
    assert_eq!((problem.sizes.as_slice(), problem.parameters()), (&[16, 8][..], vec![0.5, 2.0, 1.0]));
    assert_eq!(problem.data, [Source::File { path: "kappa.npy".to_string(), order: vec![1, 0] }]);
    assert_eq!(problem.guess, [Source::Random(3)]);
    assert!(matches!(problem.rhs[0], Source::Expr(_)));
    assert_eq!((problem.tolerance, problem.iterations), (1e-5, 7));
    let names: Vec<&str> = program.solvers.iter().map(|solver| solver.name.as_str()).collect();
    assert_eq!((names, problem.solver_params.as_slice()), (vec!["richardson", "chebyshev"], &[0.5][..]));
    let Preconditioner::Inner { solver: 1, params, iterations: 4, preconditioner } = &problem.preconditioner else {
        panic!("{:?}", problem.preconditioner);
    };
    assert_eq!((params.as_slice(), preconditioner.as_ref()), (&[0.1, 0.0][..], &Preconditioner::Line(1)));
}

#[test]
fn preconditioners_of_matrices_have_a_number() {
    let of = |text: &str| {
        program(&PROBLEM.replace("inner(chebyshev(lower = 0.1), iterations = 4, preconditioner = line(j))", text))
    };
    let found = |text: &str| of(text).problems[0].preconditioner.clone();
    assert_eq!(found("block_jacobi(4)"), Preconditioner::BlockJacobi(4));
    assert_eq!([found("ssor"), found("ssor(1.5)")], [1.0, 1.5].map(Preconditioner::Ssor));
}

fn with(overrides: &[(&str, f64)]) -> Result<Problem, String> {
    let overrides: Vec<(String, f64)> = overrides.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    program(PROBLEM).problem_with(0, &overrides).map_err(|errors| errors.to_string())
}

#[test]
fn overrides_come_before_what_depends_on_them() {
    let problem = with(&[("nx", 32.0)]).unwrap();
    assert_eq!((problem.sizes.as_slice(), problem.parameters()), (&[32, 8][..], vec![0.25, 2.0, 0.5]));
    assert!(problem.params.iter().all(|param| matches!(param.kind, ExprKind::Number(_))));
    assert_eq!(with(&[("omega", 3.0), ("scale", 1.0)]).unwrap().parameters(), [3.0, 1.0, 6.0]);
    assert_eq!(with(&[]).unwrap().parameters(), [0.5, 2.0, 1.0]);
}

#[test]
fn bad_overrides_are_refused() {
    let refused = |name, value| with(&[(name, value)]).unwrap_err();
    assert!(refused("nx", 0.0).starts_with("error: `nx` cannot be 0: an axis has at least one point\n --> test.kw\n"));
    assert!(refused("nx", 1.5).contains("a size is a whole number"));
    assert!(refused("nx", 1e13).contains("at most 2^40"));
    assert!(refused("omega", f64::NAN).contains("not finite"));
    assert!(refused("omga", 1.0).contains("did you mean `omega`?"));
    assert!(program(PROBLEM).problem_with(1, &[]).is_err());
}

#[test]
fn a_solver_of_the_program_shadows_the_library() {
    let text = "solver cg(A: any) { residual r = f - A*u; u = u + r; }
        operator o { grid cells [i: nx]; apply u => u; boundary i: periodic; }
        problem p { operator o(nx = 3); rhs 1; solver cg; }";
    let program = program(text);
    assert_eq!((program.solvers.len(), program.solvers[0].body.len()), (1, 2));
}
