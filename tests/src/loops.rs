//! Random solver loops: they converge to nothing, but mean something exact.

use crate::random::Random;

/// A random solver `random(A: any, M: any)` as text: a straight-line loop over a few vectors and scalars with products,
/// preconditioned vectors, dot products, aliases and carried values.
pub fn solver(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x5eed);
    let body: String = (0..random.between(3, 8)).map(|_| statement(&mut random)).collect();
    let update = match random.below(3) {
        0 => "r = f - A*u;".to_string(),
        1 => format!("r = r - s*(A*{});", vector(&mut random)),
        _ => format!("r = t*r - {};", vector(&mut random)),
    };
    let (direction, step) = (vector(&mut random), scalar(&mut random));
    let last: String = (0..random.below(3)).map(|_| statement(&mut random)).collect();
    format!(
        "solver random(A: any, M: any) {{
    residual r = f - A*u;
    converge when norm(r) <= tolerance*norm(f);
    a = inv(M)*r;
    b = A*a;
    c = r;
    s = dot(a, r);
    t = dot(b, r) + 2;
    repeat {{
{body}        u = u + {step}*{direction};
        {update}
        check;
{last}    }}
}}
"
    )
}

fn vector(random: &mut Random) -> &'static str {
    const NAMES: &[&str] = &["a", "b", "c", "r"];
    NAMES[random.below(NAMES.len() as u64) as usize]
}

fn target(random: &mut Random) -> &'static str {
    const NAMES: &[&str] = &["a", "b", "c"];
    NAMES[random.below(NAMES.len() as u64) as usize]
}

fn scalar(random: &mut Random) -> &'static str {
    const NAMES: &[&str] = &["s", "t"];
    NAMES[random.below(NAMES.len() as u64) as usize]
}

fn statement(random: &mut Random) -> String {
    let to = target(random);
    let (v, w, s) = (vector(random), vector(random), scalar(random));
    let text = match random.below(9) {
        0 => format!("{to} = A*{v}"),
        1 => format!("{to} = inv(M)*{v}"),
        2 | 3 => format!("{to} = {v} + {s}*{w}"),
        4 => format!("{to} = {s}*{to} - (A*{v})"),
        5 => format!("{to} = {v}"),
        6 => format!("{s} = dot({v}, {w})"),
        7 => format!("{s} = dot({v}, {w})/dot({v}, {v})"),
        _ => "s = s + 3*t".to_string(),
    };
    format!("        {text};\n")
}

/// A random solver `random(A: any, M: any)` as text: a loop with branches, inner loops and tests anywhere, in which the
/// solution is assigned, copied and taken back.
pub fn branching(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0xb4a9c4);
    let mut body = String::new();
    block(&mut random, 3, &mut body);
    around("", &body)
}

/// A random solver `random(A: any, M: any)` as text: a straight-line loop with tests anywhere, in which the solution is
/// assigned, copied and taken back, also before the loop.
pub fn straight(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x57a16b);
    let mut part = |least: i64, most: i64| -> String {
        let mut lines = String::new();
        for _ in 0..random.between(least, most) {
            lines += &match random.below(8) {
                0 => "        check;\n".to_string(),
                1..=4 => of_solution(&mut random),
                _ => statement(&mut random),
            };
        }
        lines
    };
    let before = part(0, 3).replace("        ", "    ").replace("    check;\n", "");
    let body = part(3, 6);
    around(&before, &body)
}

/// A solver whose vectors a, b and c and scalars s and t the statements change, before its loop and in it.
fn around(before: &str, body: &str) -> String {
    format!(
        "solver random(A: any, M: any) {{
    residual r = f - A*u;
    converge when norm(r) <= tolerance*norm(f);
    a = inv(M)*r;
    b = u;
    c = A*a;
    s = dot(a, r);
    t = dot(b, r) + 2;
{before}    repeat {{
{body}        check;
    }}
}}
"
    )
}

fn block(random: &mut Random, depth: u32, out: &mut String) {
    for _ in 0..random.between(2, 4) {
        match random.below(12) {
            0 | 1 if depth > 0 => nested(random, depth, "if s > t {", out),
            2 if depth > 0 => nested(random, depth, "every 2 {", out),
            3 if depth > 0 => nested(random, depth, "repeat 2 times {", out),
            4 => out.push_str("        check;\n"),
            5 => out.push_str("        require norm(r) != 3 else breakdown;\n"),
            6..=9 => out.push_str(&of_solution(random)),
            _ => out.push_str(&statement(random)),
        }
    }
}

fn nested(random: &mut Random, depth: u32, head: &str, out: &mut String) {
    *out += &format!("        {head}\n");
    block(random, depth - 1, out);
    if head.starts_with("if") && random.one_in(2) {
        *out += if random.one_in(3) { "        } else if norm(r) > s {\n" } else { "        } else {\n" };
        block(random, depth - 1, out);
    }
    *out += "        }\n";
}

fn of_solution(random: &mut Random) -> String {
    let (v, to, s) = (vector(random), target(random), scalar(random));
    let text = match random.below(8) {
        0 | 1 => format!("u = u + {s}*{v}"),
        2 => format!("u = {v}"),
        3 => format!("{to} = u"),
        4 => format!("u = u + 0.5*(A*{v})"),
        5 => "u = u - 0.25*(A*u - f)".to_string(),
        6 => format!("{to} = {to} - u"),
        _ => "r = f - A*u".to_string(),
    };
    format!("        {text};\n")
}
