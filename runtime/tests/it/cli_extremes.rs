//! Names, numbers and files at the edge of what commands take.

use crate::cli::{file, folder, run};

/// A problem of its own solver `many` on a small operator `name`.
fn many_sums(name: &str) -> String {
    let sums = ["r, q", "q, q", "r, u", "q, u", "z, q", "z, u", "z, z", "z, r", "u, u", "f, q", "f, r", "f, u"];
    let dots: String = (0..).zip(sums).map(|(i, of)| format!("measured_{i} = dot({of}); ")).collect();
    let total: String = (2..sums.len()).map(|i| format!(" + measured_{i}")).collect();
    format!(
        "solver many(A: any) {{
            residual r = f - A*u;
            converge when norm(r) <= tolerance*norm(f);
            z = r;
            repeat {{
                q = A*r;
                {dots}
                require abs(0{total}) < 1e30 else diverged;
                alpha = measured_0/measured_1;
                u = u + alpha*r;
                z = r;
                r = r - alpha*q;
                check;
            }}
        }}
        operator {name} {{
            grid cells [i: nx];
            param {name}_length = 2;
            let {name}_mass = {name}_length*3;
            apply u => {name}_mass*u - u[i-1] - u[i+1];
            boundary i: no_flux;
        }}
        problem p {{ operator {name}(nx = 20); rhs i; solver many; }}"
    )
}

#[test]
fn many_sums_and_long_names_compile() {
    for (number, name) in ["short", &"long_".repeat(1000), &"größe".repeat(100)].into_iter().enumerate() {
        let program = file(&folder("cli_extremes_names"), &format!("{number}.kw"), &many_sums(name));
        let ran = run(&["solve", &program, "--backend", "host"]);
        assert!(ran.status == 0 && ran.out.contains("converged"), "{}{}", ran.out, ran.err);
    }
}

#[test]
fn a_limit_may_stand_for_none() {
    let program = file(&folder("cli_extremes_limit"), "a.kw", &many_sums("short"));
    let ran = run(&["solve", &program, "--backend", "interp", "--iterations", "4294967295"]);
    assert!(ran.status == 0 && ran.out.contains("converged"), "{}{}", ran.out, ran.err);
}

#[test]
fn a_folder_is_no_array() {
    let folder = folder("cli_extremes_folder");
    let program = file(&folder, "a.kw", &many_sums("short"));
    let ran = run(&["solve", &program, "--backend", "interp", "--rhs", &folder.to_string_lossy()]);
    assert!(ran.status == 1 && ran.err.contains("directory"), "{}", ran.err);
}

#[test]
fn check_counts_what_stands_in_the_file() {
    let folder = folder("cli_extremes_counts");
    let text = "format f { store row, slot; index u32; }
        operator a { grid cells [i: n]; apply u => u; boundary i: no_flux; }
        problem p { operator a(n = 3); rhs 1; solver bicgstab; }";
    let ran = run(&["check", &file(&folder, "a.kw", text)]);
    assert!(ran.out.ends_with(": 1 operator, 1 format, 1 problem\n"), "{}", ran.out);
}

#[test]
fn outputs_that_shorten_steps_are_noted() {
    let text = "problem p { system advection(N = 1); mesh box(n = 1, periodic = [x, y, z]);
        initial u = sin(2*pi*x); until 1e-4; every 1e-6; }";
    let program = file(&folder("cli_extremes_every"), "a.kw", text);
    let ran = run(&["solve", &program, "--backend", "interp"]);
    assert!(ran.status == 0 && ran.err.contains("outputs every 1e-6 make 100 steps"), "{}{}", ran.out, ran.err);
}
