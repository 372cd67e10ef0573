//! Schedules of the library and of hard loops: legal, and as good as they should be.

use super::cases::Case;
use super::schedule::Order;
use super::search::Limits;
use super::*;
use crate::loops::{ScalarId, ScalarStmt};
use kernelwright_syntax::program::Preconditioner;

fn sound(case: &Case) {
    let graph = case.graph();
    for order in [Order::Statement, Order::Fused] {
        let program = apply(&graph, &in_order("order", order)).unwrap_or_else(|e| panic!("{e}\n{}", graph.text()));
        expect_legal(case, &graph, &program);
    }
}

fn expect_legal(case: &Case, graph: &Graph, program: &Program) {
    if let Err(e) = case.check(program) {
        panic!("{e}\n{}\n{}", graph.text(), crate::loops_text::text(program));
    }
}

fn sound_plans(case: &Case, limits: Limits) -> Vec<Plan> {
    let graph = case.graph();
    let plans = plan(&graph, limits).unwrap_or_else(|e| panic!("{e}\n{}", graph.text()));
    for plan in &plans {
        expect_legal(case, &graph, &plan.program);
    }
    plans
}

#[test]
fn library_in_program_order() {
    for name in kernelwright_syntax::library::names() {
        for preconditioner in [Preconditioner::Identity, Preconditioner::Jacobi, Preconditioner::Line(2)] {
            sound(&Case::library(name, preconditioner.clone()));
            sound(&Case::library(name, preconditioner.clone()).singular());
            sound(&Case::library(name, preconditioner).boundary_values());
        }
    }
}

#[test]
fn sources_in_rows() {
    sound(&Case::library("pcg", Preconditioner::Line(2)).source());
    sound(&Case::library("bicgstab", Preconditioner::Identity).source().boundary_values());
}

#[test]
fn inner_solvers() {
    for inner in kernelwright_syntax::library::names() {
        sound(&Case::library("pcg_flexible", Preconditioner::Identity).inner(inner, 2, Preconditioner::Jacobi));
    }
}

#[test]
fn statements_of_the_library() {
    for name in kernelwright_syntax::library::names() {
        let case = Case::library(name, Preconditioner::Line(2));
        let graph = case.graph();
        let schedule = statement(&graph);
        let program = apply(&graph, &schedule).unwrap_or_else(|e| panic!("{name}: {e}\n{}", graph.text()));
        expect_legal(&case, &graph, &program);
    }
}

/// Words, sweeps, buffers besides u, and whether the arithmetic is the program's.
fn has(plans: &[Plan], words: f64, sweeps: f64, buffers: u32, arithmetic: Arithmetic) -> bool {
    plans.iter().any(|p| {
        p.cost.words == words
            && p.cost.sweeps == sweeps
            && p.cost.buffers == buffers
            && p.schedule.arithmetic == arithmetic
    })
}

#[test]
fn pcg_with_lines() {
    let case = Case::library("pcg", Preconditioner::Line(2));
    let plans = sound_plans(&case, Limits::default());
    let same = Arithmetic::Same;
    assert_eq!(plans[0].schedule.name, "statement");
    assert!(has(&plans, 18.0, 8.0, 4, same), "one sweep per statement");
    assert!(has(&plans, 11.0, 2.0, 4, Arithmetic::DifferentRecurrence), "the published two sweeps");
    assert!(has(&plans, 10.0, 2.0, 5, same), "p recomputed at neighbours");
    assert!(has(&plans, 9.0, 2.0, 4, same), "A*p recomputed too");
    assert!(has(&plans, 9.0, 3.0, 2, same), "no halo, no second buffer: z solved twice");
}

#[test]
fn pcg_with_a_diagonal() {
    let case = Case::library("pcg", Preconditioner::Jacobi);
    let plans = sound_plans(&case, Limits::default());
    assert!(has(&plans, 8.0, 2.0, 3, Arithmetic::Same), "z recomputed at neighbours");
}

#[test]
fn library_placed() {
    for name in kernelwright_syntax::library::names() {
        for case in
            [Case::library(name, Preconditioner::Identity), Case::library(name, Preconditioner::Line(0)).singular()]
        {
            let plans = sound_plans(&case, Limits { steps: 3_000, ..Limits::default() });
            let least = plans.iter().map(|p| p.cost.words).fold(f64::INFINITY, f64::min);
            assert!(least < plans[0].cost.words, "{name}: nothing better than one sweep per statement");
        }
    }
}

#[test]
fn plans_are_deterministic() {
    let case = Case::library("conjugate_residual", Preconditioner::Jacobi);
    let limits = Limits { steps: 2_000, ..Limits::default() };
    let [a, b] = [0, 1].map(|_| plan(&case.graph(), limits).expect("the solver has schedules"));
    assert_eq!(a, b);
}

#[test]
fn own_loops() {
    let momentum = "solver heavy_ball(A: spd, M: spd) {
        param step = 0.5; param momentum = 0.8;
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        start = norm(r); d = zero;
        repeat {
            z = inv(M)*r; d = momentum*d + step*z; u = u + d; r = r - A*d; check;
            require norm(r) <= 1e6*start else diverged;
            every 3 { r = f - A*u; d = zero; }
        }
    }";
    let swapped = "solver swapped(A: any) {
        residual r = f - A*u;
        converge when norm_max(r) <= tolerance*norm_max(f);
        a = r; b = A*r;
        repeat {
            c = a; a = b; b = c;
            u = u + (1/iteration)*a;
            r = f - A*u; check;
            if norm(r) > 2*norm(a) { b = r - a; } else { a = a + 2*r; }
        }
    }";
    let around = "solver around(A: symmetric) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance;
        repeat { u = u + 0.1*(f - transpose(A)*u); r = f - A*u; check; }
    }";
    let restarted = "solver restarted(A: spd, M: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat {
            p = inv(M)*r;
            repeat 3 times {
                q = A*p; alpha = dot(p, r)/dot(p, q);
                u = u + alpha*p; r = r - alpha*q; check;
                p = r + alpha*p;
            }
            r = f - A*u;
        }
    }";
    let stepped = "solver stepped(A: any, M: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        u_old = u; u = u + 0.1*inv(M)*r;
        require norm(u) >= 0 else breakdown;
        u_older = u_old; u_old = u; u = u + 0.1*(f - A*u);
        require norm(u_old) >= 0 else breakdown;
        r = f - A*u;
        repeat {
            u_new = u + 0.5*inv(M)*r + 0.1*(u - u_old) + 0.01*(u_old - u_older);
            u_older = u_old; u_old = u; u = u_new;
            r = f - A*u; check;
        }
    }";
    for text in [momentum, swapped, around, restarted, stepped] {
        for preconditioner in [Preconditioner::Jacobi, Preconditioner::Line(1)] {
            let case = Case::text(text, preconditioner);
            sound(&case);
            sound_plans(&case, Limits { steps: 2_000, ..Limits::default() });
        }
    }
}

/// The solution is assigned in branches, other variables keep older versions of it, and the solve may end in between.
#[test]
fn solutions_in_branches() {
    let cycle = "solver cycle(A: any, M: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        best = u;
        repeat {
            z = inv(M)*r; h = norm(z);
            if h > norm(r) {
                v = z - 0.5*r; u = u + h*z + 2*v;
            } else {
                u = u + 3*z;
            }
            r = f - A*u; check;
            if norm(r) > 2*h { u = best; r = f - A*u; check; } else { best = u; }
            every 2 { u = u + 0.5*z; r = f - A*u; }
        }
    }";
    sound(&Case::text(cycle, Preconditioner::Jacobi));
    for seed in 0..12 {
        sound(&Case::text(&kernelwright_tests::loops::branching(seed), Preconditioner::Jacobi));
    }
}

#[test]
fn solutions_in_straight_lines() {
    let head = "solver straight(A: any) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        x = zero;";
    for (before, body) in [
        // The guess is read in the loop.
        ("u0 = u;", "q = A*r; x = x + 3*q; r = r - 2*q; u = u0 + x; check;"),
        // The solution has changed before the loop, with and without its guess.
        ("u = u + 0.5*r; r = f - A*u;", "q = A*r; u = u + 3*q; r = r - 2*q; check;"),
        ("u0 = u; u = u + 0.5*r; r = f - A*u; x = u - u0;", "q = A*r; x = x + 3*q; r = r - 2*q; u = u0 + x; check;"),
        // Tests between two updates see what the solution is then.
        ("", "q = A*r; u = u + 3*q; r = r - 2*q; check; z = A*r; u = u + 5*z; r = r - 7*z; check;"),
        ("u0 = u;", "q = A*r; r = r - 2*q; u = u0; check; x = x + 3*q; u = u + x; check;"),
        // The solution is another variable of the round before.
        ("y = u;", "q = A*r; r = r - 2*q; u = y; y = y + 3*q; check;"),
    ] {
        let case = Case::text(&format!("{head} {before} repeat {{ {body} }} }}"), Preconditioner::Identity);
        sound(&case);
        sound_plans(&case, Limits::default());
    }
    for seed in 0..24 {
        let case = Case::text(&kernelwright_tests::loops::straight(seed), Preconditioner::Jacobi);
        sound(&case);
        sound_plans(&case, Limits { steps: 300, ..Limits::default() });
    }
}

#[test]
fn one_fence_by_prediction() {
    // With lines the prediction takes a second solve, unless z follows its own recurrence.
    for (preconditioner, recovered, words, sweeps) in [
        (Preconditioner::Line(2), false, 8.0, 2.0),
        (Preconditioner::Line(2), true, 8.0, 1.0),
        (Preconditioner::Jacobi, false, 8.0, 1.0),
    ] {
        let case = Case::library("pcg", preconditioner);
        let plans = sound_plans(&case, Limits::default());
        let single = plans.iter().filter(|p| p.schedule.predicted.is_some());
        let single = single.filter(|p| p.schedule.recovered.is_some() == recovered);
        let single = single.filter(|p| p.schedule.main.as_ref().is_some_and(|m| m.delay == 1));
        let best = single.min_by(|a, b| a.cost.words.total_cmp(&b.cost.words)).expect("rho can be predicted");
        assert_eq!(
            (best.cost.words, best.cost.sweeps, best.cost.fences),
            (words, sweeps, 1.0),
            "{}",
            best.schedule.name
        );
        assert_eq!(best.schedule.arithmetic, Arithmetic::DifferentRecurrence);
        let solves = |p: &Plan| p.cost.divisions;
        assert!(!recovered || solves(best) == solves(&plans[0]), "{}", best.schedule.name);
    }
    let graph = Case::library("pcg", Preconditioner::Line(2)).graph();
    let advanced = recover::candidates(&graph).into_iter().filter_map(|solve| recover::advance(&graph, solve));
    for graph in std::iter::once(graph.clone()).chain(advanced) {
        for sum in predict::candidates(&graph) {
            let rewritten = predict::predict(&graph, sum).expect("a candidate");
            crate::graph_verify::verify(&rewritten).unwrap_or_else(|e| panic!("{e:?}\n{}", rewritten.text()));
        }
    }
    // Nothing is verified without a residual, so nothing may be predicted.
    let mut graph = Case::library("pcg", Preconditioner::Jacobi).graph();
    graph.true_residual = None;
    assert!(predict::candidates(&graph).is_empty());
}

#[test]
fn a_solution_stands_for_its_right_side() {
    let plain = |p: &&Plan| p.schedule.arithmetic == Arithmetic::Same;
    let every_round = |p: &&Plan| p.schedule.main.as_ref().is_some_and(|m| m.delay == 1);
    let least = |plans: &[Plan], of: &dyn Fn(&&Plan) -> bool| {
        let of = plans.iter().skip(1).filter(|p| of(p) && every_round(p));
        of.map(|p| p.cost.words).fold(f64::INFINITY, f64::min)
    };
    // z is solved for behind r in one loop, and ahead of it, at the end of the round before, in the other.
    let ahead = "solver damped(A: spd, M: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat { z = inv(M)*r; u = u + 0.5*z; r = r - 0.5*(A*z); check; }
    }";
    // Here the loop carries z as it is.
    let carried = "solver gear(A: spd, M: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        z = inv(M)*r; w = A*z; gamma = dot(r, z); alpha = gamma/dot(w, z); beta = 0; p = zero; s = zero;
        repeat {
            p = z + beta*p; s = w + beta*s; u = u + alpha*p; r = r - alpha*s; check;
            z = inv(M)*r; w = A*z;
            gamma_old = gamma; gamma = dot(r, z); delta = dot(w, z);
            beta = gamma/gamma_old; alpha = gamma/(delta - beta*gamma/alpha);
        }
    }";
    let cases = [
        (Case::text(carried, Preconditioner::Line(2)), 13.0, 11.0),
        (Case::library("pcg", Preconditioner::Line(2)), 9.0, 8.0),
        (Case::library("steepest_descent", Preconditioner::Line(1)), 7.0, 5.0),
        (Case::text(ahead, Preconditioner::Line(2)), 6.0, 4.0),
    ];
    for (case, without, with) in cases {
        let plans = sound_plans(&case, Limits::default());
        let recovered = |p: &&Plan| p.schedule.recovered.is_some();
        assert_eq!((least(&plans, &plain), least(&plans, &recovered)), (without, with), "{}", case.graph().text());
        let found = plans.iter().filter(recovered);
        assert!(found.clone().all(|p| p.schedule.arithmetic == Arithmetic::DifferentRecurrence));
        let graph = case.graph();
        for solve in recover::candidates(&graph) {
            let rewritten = recover::recover(&graph, solve).expect("a candidate");
            crate::graph_verify::verify(&rewritten).unwrap_or_else(|e| panic!("{e:?}\n{}", rewritten.text()));
        }
    }
}

#[test]
fn what_cannot_be_recovered() {
    let head = "solver own(A: spd, M: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        r_old = r; z = inv(M)*r;";
    for body in [
        // Read at neighbours, by another solve, under another name, or by nobody but the solve.
        "q = A*r; u = u + z; r = r - q; z = inv(M)*r; check;",
        "y = inv(M)*r; u = u + z + y; r = f - A*u; z = inv(M)*r; check;",
        "u = u + z; y = 0.1*r_old; r_old = r; r = r - A*z + y; z = inv(M)*r; check;",
        "u = u + z; r = f - A*u; z = inv(M)*r; check;",
    ] {
        let case = Case::text(&format!("{head} repeat {{ {body} }} }}"), Preconditioner::Line(2));
        assert_eq!(recover::candidates(&case.graph()), [], "{body}");
    }
    // Nothing is verified without a residual; a diagonal is no line.
    let mut graph = Case::library("pcg", Preconditioner::Line(2)).graph();
    graph.true_residual = None;
    assert_eq!(recover::candidates(&graph), []);
    assert_eq!(recover::candidates(&Case::library("pcg", Preconditioner::Jacobi).graph()), []);
}

#[test]
fn renamings_are_no_sweeps() {
    let shifted = "solver shifted(A: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        a = r; b = 2*r; c = zero; s = 1; s_old = 2; s_older = 3;
        repeat {
            n = A*a + 0.5*b + 0.25*c + s_older*r; c = b; b = a; a = n;
            s_older = s_old; s_old = s; s = dot(n, b);
            u = u + s*c; r = f - A*u; check;
        }
    }";
    let swapped = "solver swapped(A: spd) {
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        a = r; b = 2*r; v = r; v_same = 3*r;
        repeat { t = a; a = b; b = t; v_old = v; v = A*v + b; v_same = v_old; u = u + a + v_same; r = f - A*u; check; }
    }";
    for text in [shifted, swapped] {
        let case = Case::text(text, Preconditioner::Identity);
        sound(&case);
        sound_plans(&case, Limits { steps: 3_000, ..Limits::default() });
    }
    let graph = Case::text(shifted, Preconditioner::Identity).graph();
    let copies = |g: &Graph| g.nodes.iter().filter(|n| n.text.as_deref().is_some_and(|t| t == "c = b")).count();
    assert_eq!(copies(&graph), 0, "{}", graph.text());
}

/// Every front in one line: words, sweeps, fences, buffers; `~` marks another recurrence.
fn front(name: &str, preconditioner: Preconditioner) -> String {
    let plans =
        plan(&Case::library(name, preconditioner).graph(), Limits::default()).expect("the solver has schedules");
    let entry = |p: &Plan| {
        let other = if p.schedule.arithmetic == Arithmetic::Same { "" } else { "~" };
        let [sweeps, fences] = [p.cost.sweeps, p.cost.fences].map(|x| (x * 1000.0).round() / 1000.0);
        format!("{other}{:.2}/{sweeps}/{fences}/{}", p.cost.words, p.cost.buffers)
    };
    plans.iter().map(entry).collect::<Vec<_>>().join(" ")
}

#[test]
fn fronts_of_the_library() {
    let mut text = String::new();
    for name in kernelwright_syntax::library::names() {
        for (label, m) in [("identity", Preconditioner::Identity), ("line", Preconditioner::Line(2))] {
            text += &format!("{name} {label}: {}\n", front(name, m));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/plan/fronts.txt");
    if std::env::var_os("KERNELWRIGHT_BLESS").is_some() {
        std::fs::write(path, &text).expect("the fronts can be written");
    }
    assert_eq!(text, include_str!("fronts.txt"), "set KERNELWRIGHT_BLESS to accept");
}

#[test]
fn delayed_updates() {
    let case = Case::library("pcg", Preconditioner::Line(2));
    let plans = sound_plans(&case, Limits::default());
    for (delay, apart, words) in
        [(2, false, 8.5), (3, false, 8.0 + 1.0 / 3.0), (4, false, 8.25), (4, true, 8.5), (8, true, 8.25)]
    {
        let asked = |p: &&Plan| {
            let main = p.schedule.main.as_ref().filter(|m| m.delay == delay && m.apart == apart);
            main.is_some() && p.schedule.arithmetic == Arithmetic::Same
        };
        let found = plans.iter().find(asked).expect("the update of u can be delayed");
        assert!((found.cost.words - words).abs() < 1e-6, "{delay}, apart {apart}: {}", found.cost.words);
        let round = found.schedule.main.as_ref().map_or(0, |main| main.sweeps) as f64;
        let own = if apart { 1.0 / f64::from(delay) } else { 0.0 };
        assert!((found.cost.sweeps - round - own).abs() < 1e-6, "{}", found.schedule.name);
        assert_eq!(found.cost.fences, 2.0, "{}", found.schedule.name);
    }
    for fence in plans.iter().flat_map(|p| &p.program.fences).filter(|f| f.predicate.is_some()) {
        let counts = |s: &ScalarStmt| matches!(s, ScalarStmt::Assign { scalar: ScalarId::ITERATION, .. });
        assert!(!fence.statements.iter().any(counts), "{}: drivers would count it in every round", fence.name);
    }
    // The residual is computed from u: its update cannot wait.
    let case = Case::library("richardson", Preconditioner::Jacobi);
    let plans = sound_plans(&case, Limits::default());
    assert!(plans.iter().all(|p| p.schedule.main.as_ref().is_none_or(|m| m.delay == 1)));
}

#[test]
fn branches_on_scalars_are_placed() {
    let case = Case::library("bicgstab", Preconditioner::Jacobi);
    let plans = sound_plans(&case, Limits::default());
    assert!(has(&plans, 15.0, 3.0, 7, Arithmetic::Same), "one sweep for each product and one for the residual");
}

#[test]
fn a_search_tells_whether_it_came_to_its_end() {
    let graph = Case::library("pcg", Preconditioner::Line(2)).graph();
    let (_, complete) = plan_within(&graph, Limits::default()).expect("pcg has schedules");
    assert!(complete);
    let (plans, complete) = plan_within(&graph, Limits { steps: 50, ..Limits::default() }).expect("pcg has schedules");
    assert!(!complete && !plans.is_empty());
}
