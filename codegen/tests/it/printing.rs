//! Printed kernels: goldens, and the real C compiler's opinion of them.

use kernelwright_codegen::kernel::{Kernel, Type};
use kernelwright_codegen::kernel_verify::{verify, verify_all};
use kernelwright_codegen::print;

use crate::c_program::{compile, run};
use crate::kernel_samples as samples;

fn verified(kernel: Kernel) -> Kernel {
    if let Err(errors) = verify(&kernel) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{kernel}", errors.join("\n"));
    }
    kernel
}

fn host_kernels() -> Vec<Kernel> {
    let kernels =
        vec![samples::host_line_sweep(), samples::every_expression(Type::F32), samples::every_expression(Type::F64)];
    kernels.into_iter().map(verified).collect()
}

fn device_kernels() -> Vec<Kernel> {
    let kernels =
        vec![samples::tiled_sweep(), samples::wide_copy(1 << 22), samples::two_phases(), samples::large_tile()];
    kernels.into_iter().map(verified).collect()
}

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn kernels_as_text() {
    for kernel in device_kernels().iter().chain(&host_kernels()) {
        snapshot(&format!("{}.kernel", kernel.name), &kernel.to_string());
    }
}

#[test]
fn kernels_as_cuda() {
    for kernel in device_kernels().iter().chain(&host_kernels()) {
        snapshot(&format!("{}.cu", kernel.name), &print::cuda(std::slice::from_ref(kernel)));
    }
}

#[test]
fn kernels_as_c() {
    for kernel in device_kernels().iter().chain(&host_kernels()) {
        snapshot(&format!("{}.c", kernel.name), &print::c(std::slice::from_ref(kernel)));
    }
}

#[test]
fn c_compiles_without_warnings() {
    let runnable = |kernel: &Kernel| !kernel.waits_for_grid();
    let all: Vec<Kernel> = host_kernels().into_iter().chain(device_kernels()).filter(runnable).collect();
    for kernel in &all {
        let source = print::c(std::slice::from_ref(kernel));
        compile(&format!("{}.o", kernel.name), &source, &["-c"]);
        compile(&format!("{}.O3.o", kernel.name), &source, &["-c", "-O3", "-march=native"]);
    }
    assert_eq!(verify_all(&all), Ok(()));
    compile("all.o", &print::c(&all), &["-c", "-std=gnu17"]);
}

#[test]
fn c_refuses_barriers_of_the_grid() {
    let source = print::c(&[verified(samples::two_phases())]);
    assert!(source.contains("#error \"two_phases waits for the whole grid"), "{source}");
}

#[test]
fn lines_lead_back_to_kernels_and_statements() {
    let kernels = [verified(samples::wide_copy(4)), verified(samples::tiled_sweep())];
    let printed = print::cuda_with_lines(&kernels);
    let line_of = |text: &str| printed.text.lines().position(|line| line.contains(text)).expect("it is there") + 1;
    assert_eq!(printed.locate(line_of("const float4 x_4_a0")), Some(("wide_copy", None)));
    assert_eq!(printed.locate(line_of("update_r_sigma(")), Some(("update_r_sigma", None)));
    assert_eq!(printed.locate(line_of("const float centre")), Some(("update_r_sigma", Some("r = r - alpha*A*p;"))));
    assert_eq!(printed.locate(line_of("total += partial")), Some(("update_r_sigma", Some("sigma = dot(r, r);"))));
}

#[test]
fn large_private_arrays_leave_the_stack() {
    let mut kernel = samples::host_line_sweep();
    let stays = print::c(std::slice::from_ref(&kernel));
    assert!(stays.contains("\n    float upper[256];\n"), "{stays}");
    kernel.buffers[4].extent = 1 << 20;
    let leaves = print::c(&[verified(kernel)]);
    assert!(leaves.contains("\n    static _Thread_local float upper[1048576];\n"), "{leaves}");
    compile("large_private.o", &leaves, &["-c"]);
}

#[test]
fn large_shared_arrays_are_given_at_launch() {
    assert_eq!(print::dynamic_shared_bytes(&samples::large_tile()), 49_168 + 512);
    assert_eq!(print::dynamic_shared_bytes(&samples::tiled_sweep()), 0);
}

/// Numbers between -1 and 1 without a pattern.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 40) as f32 / 8_388_608.0 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn line_sweep_solves() {
    let kernel = verified(samples::host_line_sweep());
    let (nx, ny, nz) = (64, 16, 32);
    let n = nx * ny * nz;
    let diagonal: Vec<f64> = numbers(nz, 1).iter().map(|d| d + 4.0).collect();
    let r = numbers(n, 2);
    let result = run(&kernel, &[diagonal.clone(), r.clone(), vec![0.0; n], vec![0.0; 256]]);
    let (mut z, mut partial) = (vec![0.0f32; n], vec![0.0; 256]);
    for column in 0..nx * ny {
        let mut upper = [0.0f32; 32];
        let mut kept = 0.0f32;
        for k in 0..nz {
            let pivot = 1.0 / (diagonal[k] as f32 - kept);
            upper[k] = -pivot;
            kept = upper[k];
            z[column + k * nx * ny] = r[column + k * nx * ny] as f32 * pivot;
        }
        let block = column % nx / 8 + column / nx * (nx / 8);
        for k in (0..nz).rev() {
            let at = column + k * nx * ny;
            z[at] -= upper[k] * 0.5;
            partial[2 * block] += f64::from(z[at]) * r[at];
            partial[2 * block + 1] = f64::max(partial[2 * block + 1], f64::from(z[at].abs()));
        }
    }
    assert_eq!(result[2], z.iter().map(|&z| f64::from(z)).collect::<Vec<_>>());
    for (found, expected) in result[3].iter().zip(&partial) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn lanes_of_a_block_meet_on_the_host() {
    let kernel = verified(samples::tiled_sweep());
    let (nx, ny) = (256usize, 64usize);
    let (p, r) = (numbers(nx * ny, 3), numbers(nx * ny, 4));
    let alpha = 0.75;
    let scalars = vec![0.0, 0.0, alpha, 0.0];
    let arrays = |status: f64| {
        vec![vec![status, 0.0], scalars.clone(), p.clone(), r.clone(), vec![0.0; 64], vec![0.0], vec![-1.0]]
    };
    let result = run(&kernel, &arrays(0.0));
    let at = |i: i64, j: i64| p[i.clamp(0, nx as i64 - 1) as usize + j.clamp(0, ny as i64 - 1) as usize * nx] as f32;
    let mut expected = vec![0.0f32; nx * ny];
    for j in 0..ny as i64 {
        for i in 0..nx as i64 {
            let c = at(i, j);
            let differences = (at(i + 1, j) - c + (at(i - 1, j) - c)) + (at(i, j + 1) - c + (at(i, j - 1) - c));
            let here = i as usize + j as usize * nx;
            expected[here] = r[here] as f32 - alpha as f32 * (0.1 * c - differences);
        }
    }
    let square = |i: usize, j: usize| f64::from(expected[i + j * nx]) * f64::from(expected[i + j * nx]);
    let partial: Vec<f64> = (0..64)
        .map(|block| {
            let (i, j) = (block % 8 * 32, block / 8 * 8);
            (j..j + 8).fold(0.0, |sum, j| sum + (square(i, j) + square(i + 16, j)))
        })
        .collect();
    assert_eq!(result[3], expected.iter().map(|&r| f64::from(r)).collect::<Vec<_>>());
    assert_eq!(result[4], partial);
    assert_eq!(result[5], [0.0], "the counter is ready for the next launch");
    assert_eq!(result[6], [partial.iter().fold(0.0, |sum, part| sum + part)]);
    assert_eq!(run(&kernel, &arrays(1.0)), arrays(1.0), "a raised status leaves everything as it is");
}

#[test]
fn wide_accesses_are_those_of_their_elements() {
    let kernel = verified(samples::wide_copy(2));
    let n = 2048;
    let (x, y, d) = (numbers(n, 6), numbers(n, 7), numbers(n, 8));
    let columns: Vec<f64> = (0..n).map(|i| ((i * 37 + 11) % (n - 1) + 1) as f64).collect();
    let result = run(&kernel, &[x.clone(), y.clone(), columns.clone(), d.clone()]);
    let (mut new_y, mut new_d) = (y.clone(), d.clone());
    for at in (0..n).step_by(4) {
        let (c0, c1) = (columns[at] as usize, columns[at + 1] as usize);
        new_y[at] = x[c0];
        new_y[at + 1] = x[columns[c1] as usize - 1];
        new_y[at + 2] = x[at + 2];
        new_y[at + (4_900_000_000 + at.min(1)) % 4] = x[at + 3];
        new_d[at..at + 4].copy_from_slice(&[d[at], d[at + 2], d[at], d[at] + d[at + 3]]);
    }
    assert_eq!(result, [x, new_y, columns, new_d]);
}

#[test]
fn expressions_have_their_values() {
    for ty in [Type::F32, Type::F64] {
        let kernel = verified(samples::every_expression(ty));
        let round = |x: f64| if ty == Type::F32 { f64::from(x as f32) } else { x };
        let x: Vec<f64> = numbers(24, 5).iter().map(|x| round(x + 1.5)).collect();
        let result = run(&kernel, &[x.clone(), vec![0.0; 640]]);
        let tolerance = if ty == Type::F32 { 2e-6 } else { 1e-14 };
        for (n, &a) in x.iter().enumerate() {
            let (b, c) = (round(n as f64 + 3.0 + round(0.1)), -1.5);
            let odd = n % 2 == 1;
            let expected = expected_values(a, b, c, odd, n);
            for (slot, expected) in expected.into_iter().enumerate() {
                let found = result[1][n + 24 * slot];
                let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
                assert!(close || found.is_nan() && expected.is_nan(), "{ty:?} {n} {slot}: {found} {expected}");
            }
        }
    }
}

/// In the order of the slots; the last values were stored over the first ones.
fn expected_values(a: f64, b: f64, c: f64, odd: bool, n: usize) -> Vec<f64> {
    let chosen = if odd { b } else { c };
    vec![
        if a >= b { a + 1.0 } else { 0.5 },
        b.trunc(),
        (n.saturating_sub(1) / 2) as f64,
        f64::from(a as f32),
        (a + chosen) * 0.25,
        1.0 / (a + b) / c,
        a.tanh(),
        a.abs(),
        a.floor(),
        a.powf(b),
        a * b + c,
        1.0,
        a.min(b),
        a,
        a - (b - c),
        a - b - c,
        a + b,
        a,
        2.0,
        (a + b) * c,
        a / (b * c),
        a / b * c,
        a - 3.0,
        if odd || (a < b && b >= c) { a } else { chosen },
        if odd == (a < b) { a } else { b },
    ]
}
